// A share over time with its interval, as a small drawing.
import { svg } from "./dom.js";
import { percent } from "./texts.js";

const [WIDTH, HEIGHT, LEFT, EDGE] = [640, 220, 48, 12];

/** Points are `{accuracy, low, high}`, the oldest first; `label` says in a sentence what they show. */
export function chart(points, label) {
	const lowest = Math.floor(Math.min(...points.map(({ low }) => low)) * 10) / 10;
	const x = (at) => LEFT + (at / (points.length - 1 || 1)) * (WIDTH - LEFT - EDGE);
	const y = (share) => EDGE + ((1 - share) / (1 - lowest || 1)) * (HEIGHT - 2 * EDGE);
	const line = (name) => points.map((point, at) => `${x(at)},${y(point[name])}`);
	const grid = [lowest, (1 + lowest) / 2, 1].flatMap((share) => [
		svg("line", { class: "grid", x1: LEFT, x2: WIDTH - EDGE, y1: y(share), y2: y(share) }),
		svg("text", { x: LEFT - 8, y: y(share) + 4, "text-anchor": "end" }, percent(share)),
	]);
	const band = svg("polygon", { class: "band", points: [...line("high"), ...line("low").reverse()].join(" ") });
	const middle = svg("polyline", { class: "line", points: line("accuracy").join(" ") });
	const now = svg("circle", { class: "dot", cx: x(points.length - 1), cy: y(points.at(-1).accuracy), r: 6 });
	const attributes = { class: "chart", viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": label };
	return svg("svg", attributes, ...grid, band, middle, now);
}
