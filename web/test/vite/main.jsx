/** Shows the React example (a copy of web/examples/react.jsx beside this file), as strictly as React can. */
import {StrictMode} from 'react';
import {createRoot} from 'react-dom/client';
import {Chat} from './react.jsx';

const source = new URLSearchParams(location.search).get('source') ?? undefined;

createRoot(document.getElementById('root')).render(
  <StrictMode>
    <Chat source={source} />
  </StrictMode>
);
