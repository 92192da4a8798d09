/** The loss as it falls: each step thin, its running mean thick. */
import {svg} from './dom.js';

const WIDTH = 640;
const HEIGHT = 260;
const LEFT = 52;
const BOTTOM = 28;
const TOP = 10;

/** Exponential running mean with the bias of its start taken out. @param {number[]} values */
export function runningMean(values, keep = 0.9) {
  let sum = 0;
  let weight = 0;
  return values.map((value) => {
    sum = keep * sum + (1 - keep) * value;
    weight = keep * weight + (1 - keep);
    return sum / weight;
  });
}

/** Round numbers between two values, about n of them. */
export function ticks(low, high, n) {
  const raw = Math.max(high - low, 1e-9) / n;
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((size) => size >= raw);
  const found = [];
  for (let k = Math.ceil(low / step - 1e-9); k * step <= high + step * 1e-9; k++)
    found.push(Number((k * step).toPrecision(6)));
  return found;
}

function scales(losses, steps) {
  const low = Math.min(...losses);
  const high = Math.max(...losses);
  const margin = (high - low) * 0.08 || 0.1;
  const bottom = low - margin;
  const top = high + margin;
  return {
    bottom,
    top,
    x: (step) => LEFT + (WIDTH - LEFT - 12) * (steps > 1 ? (step - 1) / (steps - 1) : 0),
    y: (loss) => HEIGHT - BOTTOM - ((HEIGHT - BOTTOM - TOP) * (loss - bottom)) / (top - bottom),
  };
}

function axes({bottom, top, x, y}, steps) {
  const marks = [];
  for (const value of ticks(bottom, top, 4)) {
    marks.push(svg('line', {class: 'axis', x1: LEFT, x2: WIDTH - 12, y1: y(value), y2: y(value)}));
    marks.push(svg('text', {x: LEFT - 6, y: y(value) + 4, 'text-anchor': 'end'}, String(value)));
  }
  for (const step of new Set([1, Math.round((steps + 1) / 2), steps]))
    marks.push(
      svg('text', {x: x(step), y: HEIGHT - 8, 'text-anchor': step === steps ? 'end' : 'middle'}, String(step)),
    );
  return marks;
}

const line = (values, {x, y}, name) =>
  svg('polyline', {
    class: name,
    points: values.map((value, at) => `${x(at + 1).toFixed(1)},${y(value).toFixed(1)}`).join(' '),
  });

/** Draws losses of `steps` planned steps into an SVG of 640 by 260. */
export function plot(element, losses, steps) {
  const finite = losses.filter(Number.isFinite);
  if (finite.length === 0) {
    element.replaceChildren(
      svg(
        'text',
        {x: WIDTH / 2, y: HEIGHT / 2, 'text-anchor': 'middle'},
        'The loss is drawn here while the model learns',
      ),
    );
    return;
  }
  const place = scales(finite, steps);
  element.replaceChildren(...axes(place, steps), line(finite, place, 'raw'), line(runningMean(finite), place, 'mean'));
}
