import { camera } from "./camera.js";
import {
	define, did, icon, made, newKey, note, noteError, nowAt, pause, place, put, Screen, store, t, undo,
} from "./kit.js";
import { teach } from "./outbox.js";
import { difference, greyOf, prepared } from "./photos.js";

const BETWEEN = 200;  // ms: five photos a second
const DIFFERS = 3.5;  // grey values
const [SIDE, SMALL] = [1600, 200];  // pixels
const SHOWN = 60;

define("teach", class extends Screen {
	undo = undo;
	#burst = null;

	begin() {
		const { field, stage, hold } = this.$;
		hold.onpointerdown = ({ pointerId }) => this.#hold(hold.setPointerCapture(pointerId));
		hold.onpointerup = hold.onpointercancel = hold.onblur = () => this.#release();
		hold.oncontextmenu = (event) => event.preventDefault();
		hold.onkeydown = hold.onkeyup = (event) => {
			if (![" ", "Enter"].includes(event.key)) return;
			event.preventDefault();
			if (event.type === "keyup") this.#release();
			else this.#hold();
		};
		field.onclick = ({ target }) => target.select?.();
		field.oninput = () => (hold.disabled = !field.value);
		field.onname = () => {
			this.#name();
			(camera.isPossible ? hold : stage.querySelector("[capture]")).focus();
		};
		stage.onphotos = (files) => this.#files(files);
		this.ends.push(() => this.#release(), store.onEvent(({ undoes = [] }) => {
			for (const tile of [...this.$.taken.children]) if (undoes.includes(tile.seq)) tile.remove();
		}));
		field.value = place()[1] ?? "";
		if (field.value) this.#name();
		else if (matchMedia("(hover: hover)").matches) field.focus();
	}

	#name() {
		const { field, hold } = this.$;
		const label = field.value;
		hold.disabled = !label;
		if (label) {
			nowAt("teach", label);
			this.put({ holdText: t("teach.hold.name", { label }) });
			return { group: newKey(), label, n: 0 };
		}
		note(t("teach.name.first"));
		field.focus();
	}

	async #hold() {
		const burst = !this.#burst && this.#name();
		if (!burst) return;
		this.#burst = burst;
		const { hold, stage } = this.$;
		hold.classList.add("held");
		stage.showPhoto(null);
		let last = null;
		if (!camera.isOn) await stage.startCamera();
		while (camera.isOn && (burst === this.#burst || !last)) {
			const next = pause(BETWEEN);
			const grey = camera.shows && greyOf(camera.video);
			if (grey && (!last || difference(grey, last) > DIFFERS)) {
				last = grey;
				this.#take((await camera.grab(SIDE)).blob, burst);
			}
			await next;
		}
	}

	#release() {
		this.#burst = null;
		this.$.hold.classList.remove("held");
	}

	async #files(files) {
		const burst = this.#name();
		for (const file of burst ? files : []) this.#take(await prepared(file), burst);
	}

	async #take(blob, burst) {
		const tile = made("taken");
		const { photo, anyway, drop } = tile.$;
		this.$.taken.prepend(tile);
		this.$.taken.children[SHOWN]?.remove();
		photo.onload = () => URL.revokeObjectURL(photo.src);
		drop.onclick = () => tile.remove();
		anyway.onclick = () => this.#send(blob, burst, tile);
		this.#send(blob, burst, tile, true);
		put(tile, { photo: URL.createObjectURL(await prepared(blob, SMALL)) });
	}

	async #send(blob, burst, tile, unless_warned) {
		const mark = (state, symbol, why) => {
			tile.className = state;
			put(tile, { state: icon(symbol), why, acts: state === "warned" });
		};
		const { label, group } = burst;
		mark("waiting", "clock");
		try {
			const { learned, codes = [], other, seq } = await teach(blob, { label, group, unless_warned });
			if (learned === false) {
				const why = codes.map((code) => t(`warn.${code}`, other)).join(" ");
				mark("warned", "warn", why);
				return this.put({ says: why, undo: false });
			}
			tile.seq = seq;
			mark("taught", "yes");
			const text = t("did.learn", { n: ++burst.n, label });
			did({ group, text });
			this.put({ says: text, undo: true });
		} catch (error) {
			mark("refused", "close", error.message);
			noteError(error);
		}
	}
});
