// The live view: frames asked about one after the other, none of them old.
import { call, pause } from "./api.js";
import { camera } from "./camera.js";

const SIDE = 512;  // pixels: as much as is kept of a photo that is taught
const AT_ONCE = 2;
const BETWEEN = 75;  // milliseconds from one frame to the next, at least
const TOO_OLD = 250;  // milliseconds from the frame to its answer
const WHY_EVERY = 1200;  // milliseconds between two answers that say why

export class Live {
	isOn = false;
	#run = 0;
	#underWay = 0;
	#shownAt = 0;
	#whyAt = 0;
	#late = 0;

	/** `show(answer, photo)` gets answers in the order of their frames. */
	constructor(show) {
		this.show = show;
	}

	/** Ask until it is stopped; never more at once than the service keeps up with. */
	async start() {
		if (this.isOn) return;
		this.isOn = true;
		const run = ++this.#run;
		while (run === this.#run) {
			const next = pause(BETWEEN);
			const hasTime = this.#underWay < (this.#late > 3 ? 1 : AT_ONCE);
			const frame = hasTime && !document.hidden && (await camera.grab(SIDE));
			if (frame) this.#ask(frame, run);
			await next;
		}
	}

	stop() {
		this.isOn = false;
		this.#run++;
	}

	async #ask({ at, blob }, run) {
		this.#underWay++;
		const saysWhy = at - this.#whyAt > WHY_EVERY;
		if (saysWhy) this.#whyAt = at;
		try {
			const query = { k: 3, unknown: 0.05, like: saysWhy && 3 };
			const answer = await call("POST", "v1/predict", { query, body: blob, type: blob.type });
			answer.age = performance.now() - at;
			this.#late = answer.age > TOO_OLD ? this.#late + 1 : 0;
			const isFit = this.#late === 0 || this.#late > 3;  // of a slow service, old answers are better than none
			if (run === this.#run && at > this.#shownAt && isFit) {
				this.#shownAt = at;
				this.show(answer, blob);
			}
		} catch {
			await pause(500);  // whoever is gone is looked for elsewhere
		}
		this.#underWay--;
	}
}
