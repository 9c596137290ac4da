import { call, pause } from "./api.js";
import { camera } from "./camera.js";

const SIDE = 512;  // pixels: as much as is kept of a photo that is taught
const BETWEEN = 75;  // milliseconds from one frame to the next, at least
const TOO_OLD = 250;  // milliseconds from the frame to its answer
const WHY_EVERY = 1200;  // milliseconds between two answers that say why

// Asks about what the camera shows, until it is stopped; `show(answer, photo)` gets answers in their order.
export function liveView(show) {
	let [run, underWay, shownAt, whyAt, late] = [0, 0, 0, 0, 0];

	async function ask({ at, blob: body }, mine) {
		underWay++;
		const like = at - whyAt > WHY_EVERY && 3;
		if (like) whyAt = at;
		try {
			const answer = await call("POST", "v1/predict", { query: { k: 3, unknown: 0.05, like }, body, type: body.type });
			answer.age = performance.now() - at;
			late = answer.age > TOO_OLD ? late + 1 : 0;
			const isFit = !late || late > 3;  // of a slow service, old answers are better than none
			if (mine === run && at > shownAt && isFit) show(answer, body, (shownAt = at));
		} catch {
			await pause(500);
		}
		underWay--;
	}

	return {
		isOn: false,

		async start() {
			if (this.isOn) return;
			this.isOn = true;
			const mine = ++run;
			while (mine === run) {
				const next = pause(BETWEEN);
				const hasTime = underWay < (late > 3 ? 1 : 2) && !document.hidden;
				const frame = hasTime && (await camera.grab(SIDE));
				if (frame) ask(frame, mine);
				await next;
			}
		},

		stop() {
			this.isOn = false;
			run++;
		},
	};
}
