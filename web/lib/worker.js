/** The thread of the core, in a browser. */

import {Host, METHODS} from './host.js';
import {Server} from './rpc.js';

const server = new Server(new Host(), (message) => postMessage(message), METHODS);
onmessage = ({data}) => server.receive(data);
