/** The device panel: what runs the model and why, what it offers, what the model takes; the same as text. */
import {Tern, version} from '../lib/index.js';
import {app} from './app.js';
import {$, copyText, facts} from './dom.js';
import {bytes, percent, resultText, short} from './format.js';
import {TITLES} from './explain.js';
import * as notices from './notices.js';
import * as settings from './settings.js';

/** The limits that decide what can be loaded. */
const LIMITS = [
  'maxBufferSize',
  'maxStorageBufferBindingSize',
  'maxStorageBuffersPerShaderStage',
  'maxComputeInvocationsPerWorkgroup',
  'maxComputeWorkgroupStorageSize',
];

/** Which backend runs, and why it is not the GPU. */
export function why(tern, probe, reason = app.gpuReason) {
  const gpu = tern ? tern.backend === 'webgpu' : probe?.webgpu;
  if (gpu) return tern ? 'The GPU runs the model, through WebGPU.' : 'A GPU is there, through WebGPU.';
  const begin = tern ? 'The CPU runs the model, as WebAssembly. ' : 'The CPU can run models, as WebAssembly. ';
  if (probe?.webgpu)
    return begin + (reason ? `The GPU was not fit: ${reason}` : 'It was chosen: there is a GPU as well.');
  return begin + (probe?.reason ? `${TITLES[probe.reason]}: ${probe.message}` : '');
}

/** How fast the last reply was, and which share of the bandwidth its weights took. */
function lastReply(bandwidth) {
  const {result} = app;
  if (!result) return '';
  const share =
    result.bandwidthShare ?? (bandwidth ? (result.bytesPerToken * result.tokensPerSecond) / bandwidth : null);
  const speed = `${short(result.tokensPerSecond)} tokens/s of ${bytes(result.bytesPerToken)} each`;
  return share === null ? speed : `${speed}: ${percent(share)} of the bandwidth`;
}

function deviceFacts(device, bandwidth) {
  if (!device) return [];
  const gpu = device.backend === 'webgpu';
  return [
    [
      'Adapter',
      gpu
        ? [device.vendor, device.architecture, device.description].filter(Boolean).join(', ') ||
          'not named by the browser'
        : '',
    ],
    ['Processor', gpu ? '' : device.description || [device.vendor, device.architecture].filter(Boolean).join(' ')],
    ['Threads', device.threads > 0 && !gpu ? String(device.threads) : ''],
    ['16-bit floats', gpu ? (device.features.includes('shader-f16') ? 'yes' : 'no, not needed') : ''],
    ['Subgroups', gpu ? (device.features.includes('subgroups') ? 'yes' : 'no, not needed') : ''],
    ['Layers multiply', app.tern?.model.activations ?? ''],
    ['Bandwidth', bandwidth ? `${bytes(bandwidth)}/s, measured` : 'not measured'],
    ['Last reply', lastReply(bandwidth)],
    ['Isolated page', device.crossOriginIsolated ? 'yes' : 'no: one CPU thread'],
  ];
}

function largest(plan, limits) {
  const most = limits.maxBufferSize;
  const text = bytes(plan.largestBuffer);
  return most ? `${text} of ${bytes(most)} that one may have` : text;
}

/** What the room for experts holds, and how often an expert was there. */
function expertFacts(cache) {
  if (!cache) return [];
  const asked = cache.hits + cache.misses;
  const from = `${cache.stored} from this browser, ${cache.fetched} fetched`;
  return [
    ['Experts', `${cache.held} of ${cache.experts}, ${bytes(cache.heldBytes)} of ${bytes(cache.bytes)}`],
    ['Experts found', asked ? `${percent(cache.hits / asked)} of ${asked}; ${from}` : ''],
  ];
}

function memoryFacts(tern) {
  if (!tern) return [['Plan', 'no model is loaded']];
  const plan = tern.memory;
  return [
    ['Weights', bytes(plan.weights)],
    ['KV cache', `${bytes(plan.cache)} for ${tern.model.contextLength} tokens`],
    ['Activations', bytes(plan.activations)],
    ['Together', bytes(plan.total)],
    ['Largest buffer', largest(plan, tern.device.limits ?? {})],
    ...expertFacts(app.experts),
  ];
}

function limitText(device) {
  if (!device) return '';
  const limits = device.limits ?? {};
  const shown = [
    ...LIMITS.filter((name) => name in limits),
    ...Object.keys(limits)
      .filter((name) => !LIMITS.includes(name))
      .sort(),
  ];
  return [`features: ${device.features.join(', ') || 'none'}`, ...shown.map((name) => `${name}: ${limits[name]}`)].join(
    '\n',
  );
}

function section(title, pairs) {
  return [title, ...pairs.filter(([, value]) => value).map(([name, value]) => `  ${name}: ${value}`)];
}

/** All of it as text, to copy into a report. */
export function report() {
  const tern = app.tern;
  const device = tern?.device ?? app.probe?.device;
  const where = [
    ['Browser', navigator.userAgent],
    ['Page', `${location.origin}, ${isSecureContext ? 'secure' : 'not secure'}`],
    ['Backend', why(tern, app.probe)],
    ['Storage', app.probe?.storage ? 'yes' : 'no'],
  ];
  const model = tern
    ? [
        ['Name', tern.model.name],
        ['Architecture', tern.model.architecture],
        ['Weights', bytes(tern.model.bytes)],
      ]
    : [['Name', 'none']];
  return [
    `Tern ${version}`,
    ...section('Browser', where),
    ...section('Model', model),
    ...section('Device', deviceFacts(device, device?.bandwidth)),
    ...section('Memory', memoryFacts(tern)),
    ...section('Last generation', app.result ? [['Speed', resultText(app.result)]] : []),
    'Limits',
    limitText(device).replace(/^/gm, '  '),
  ].join('\n');
}

function show() {
  const tern = app.tern;
  const device = tern?.device ?? app.probe?.device;
  $('device-why').textContent = why(tern, app.probe);
  facts($('device-facts'), deviceFacts(device, device?.bandwidth));
  facts($('memory-facts'), memoryFacts(tern));
  $('device-limits').textContent = limitText(device);
  $('measure').disabled = !tern || Boolean(app.busy);
  $('browsers').hidden = !app.probe || app.probe.webgpu;
}

async function countExperts() {
  const {tern} = app;
  const found = tern ? await tern.experts().catch(() => null) : null;
  if (tern === app.tern) app.set('experts', found);
}

async function measure() {
  const tern = app.tern;
  $('measure').disabled = true;
  try {
    const found = await tern.measureBandwidth();
    show();
    facts($('device-facts'), deviceFacts(tern.device, found ?? tern.device.bandwidth));
  } catch (error) {
    notices.showError('device', error);
  }
  $('measure').disabled = !app.tern || Boolean(app.busy);
}

/** Says on the page why there is no GPU, once, with what is done instead; not to who has chosen what runs models. */
function explainProbe(probe) {
  if (probe.webgpu || !probe.reason || settings.get('backend', 'auto') !== 'auto') return;
  notices.showError('probe', {code: probe.reason, message: probe.message}, []);
}

export async function start() {
  $('version').textContent = version;
  $('measure').onclick = measure;
  $('copy-report').onclick = () => copyText(report());
  app.set('probe', await Tern.probe());
  app.watch(['tern', 'result'], countExperts);
  app.watch(['tern', 'busy', 'probe', 'result', 'experts'], show);
  explainProbe(app.probe);
}
