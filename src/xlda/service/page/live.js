import { pause, predict } from "./api.js";
import { camera } from "./camera.js";

const SIDE = 512;  // pixels, as photos are kept
const BETWEEN = 75;  // ms
const TOO_OLD = 250;  // ms
const WHY_EVERY = 1200;  // ms

export function liveView(show) {
	let [run, underWay, shownAt, whyAt, late] = [0, 0, 0, 0, 0];

	async function ask({ at, blob: body }, mine) {
		underWay++;
		const like = at - whyAt > WHY_EVERY && 3;
		if (like) whyAt = at;
		try {
			const answer = await predict(body, like);
			answer.age = performance.now() - at;
			late = answer.age > TOO_OLD ? late + 1 : 0;
			const isFit = !late || late > 3;
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
