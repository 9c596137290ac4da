// Teach: a name, and photos of it. Hold to take one after the other.
import { newKey, pause } from "./api.js";
import { camera } from "./camera.js";
import { icon, made, put } from "./dom.js";
import { note, noteError } from "./notes.js";
import { teach } from "./outbox.js";
import { difference, greyOf, prepared } from "./photos.js";
import { nowAt, place } from "./router.js";
import { define, Screen } from "./screen.js";
import { store } from "./store.js";
import { t } from "./texts.js";
import { did, undo } from "./undo.js";

const BETWEEN = 200;  // milliseconds: at most five photos a second
const DIFFERS = 3.5;  // mean difference of grey values from which on a frame is another one
const [SIDE, SMALL] = [1600, 200];  // pixels: what is sent, what is shown
const SHOWN = 60;

class Teach extends Screen {
	undo = undo;
	#label = "";
	#burst = null;

	begin() {
		const { field, stage, hold } = this.$;
		hold.hidden = !camera.isPossible;
		hold.onpointerdown = ({ pointerId }) => this.#hold(hold.setPointerCapture(pointerId));
		hold.onpointerup = hold.onpointercancel = hold.onblur = () => this.#release();
		hold.oncontextmenu = (event) => event.preventDefault();
		hold.onkeydown = hold.onkeyup = (event) => this.#key(event);
		field.$.input.addEventListener("input", () => (hold.disabled = !field.value));
		field.addEventListener("name", () => {
			this.#name();
			(camera.isPossible ? hold : stage.querySelector("[capture]")).focus();
		});
		stage.addEventListener("photos", ({ detail }) => this.#files(detail));
		this.ends.push(() => this.#release(), store.on("model", () => {
			const isFirst = !store.get("model").samples;
			this.put({ lead: t(!isFirst ? "teach.lead" : camera.isPossible ? "teach.first" : "teach.first.file") });
		}));
		field.value = place()[1] ?? "";
		if (field.value) this.#name();
		else if (matchMedia("(hover: hover)").matches) field.focus();
	}

	#key(event) {
		if (event.key !== " " && event.key !== "Enter") return;
		event.preventDefault();
		if (event.type === "keyup") this.#release();
		else if (!event.repeat) this.#hold();
	}

	/** The name as it stands in the field, with Enter or without. */
	#name() {
		const { field, hold } = this.$;
		const label = (this.#label = field.value);
		hold.disabled = !label;
		if (label) {
			nowAt("teach", label);
			this.put({ holdText: t("teach.hold.name", { label }) });
		} else {
			note(t("teach.name.first"));
			field.focus();
		}
		return label && { group: newKey(), label, n: 0 };
	}

	/** Take a frame whenever it differs from the last, until the button is let go: all one group. */
	async #hold() {
		const burst = this.#burst ? null : this.#name();
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

	/** One photo: shown at once, sent when it can be, and taught unless something is wrong with it. */
	async #take(blob, burst) {
		const tile = made("taken");
		const { photo, anyway, drop } = tile.$;
		const { taken } = this.$;
		taken.prepend(tile);
		if (taken.children.length > SHOWN) taken.lastChild.remove();
		photo.onload = () => URL.revokeObjectURL(photo.src);
		drop.onclick = () => tile.remove();
		anyway.onclick = () => this.#send(blob, burst, tile);
		this.#send(blob, burst, tile, true);
		put(tile, { photo: URL.createObjectURL(await prepared(blob, SMALL)) });
	}

	async #send(blob, burst, tile, unless_warned) {
		const { label, group } = burst;
		mark(tile, "waiting", "clock");
		try {
			const { learned, codes = [], other } = await teach(blob, { label, group, unless_warned });
			if (learned === false) {
				const why = codes.map((code) => t(`warn.${code}`, other)).join(" ");
				mark(tile, "warned", "warn", why);
				return this.put({ says: why });
			}
			mark(tile, "taught", "yes");
			const text = t("did.taught", { n: ++burst.n, label });
			did({ group, text });
			this.put({ says: text, undo: true });
		} catch (error) {
			mark(tile, "refused", "close", error.message);
			noteError(error);
		}
	}
}

function mark(tile, state, symbol, why) {
	tile.className = state;
	put(tile, { state: icon(symbol), why, acts: state === "warned" && Boolean(why) });
}

define("teach", Teach);
