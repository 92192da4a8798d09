/** A React component (18 or newer) that answers one question after the other. */
import {Tern} from '@tern/web';
import {useEffect, useRef, useState} from 'react';

export function Chat({source = 'bundled'}) {
  const tern = useRef(null);
  const [ready, setReady] = useState(false);
  const [messages, setMessages] = useState([]);
  const [text, setText] = useState('');

  useEffect(() => {
    const control = new AbortController();
    Tern.load(source, {signal: control.signal}).then(
      (loaded) => {
        tern.current = loaded;
        setReady(true);
      },
      (error) => control.signal.aborted || setMessages([{role: 'assistant', content: error.message}]),
    );
    return () => {
      control.abort();
      tern.current?.dispose();
    };
  }, [source]);

  async function send(event) {
    event.preventDefault();
    const asked = [...messages, {role: 'user', content: text}];
    setText('');
    setReady(false);
    let content = '';
    const show = () => setMessages([...asked, {role: 'assistant', content}]);
    try {
      for await (const piece of tern.current.chat(asked, {maxTokens: 200})) {
        content += piece.text;
        show();
      }
    } catch (error) {
      content += ` [${error.message}]`;
      show();
    }
    setReady(true);
  }

  return (
    <form onSubmit={send}>
      {messages.map(({role, content}, i) => (
        <p key={i}>
          <b>{role}</b> {content}
        </p>
      ))}
      <input value={text} onChange={(event) => setText(event.target.value)} aria-label="Your message" />
      <button disabled={!ready}>Send</button>
    </form>
  );
}
