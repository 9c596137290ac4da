// An answer as it is shown: how sure it is by shape and word, the three best with a picture, and why.
import { icon, made, photoOf, put } from "./dom.js";
import { define, Screen } from "./screen.js";
import { percent, t } from "./texts.js";

const STEADY = 700;  // milliseconds after which a passing answer is read out

class Answer extends Screen {
	#rows = new Map();
	#said = "";

	begin() {}

	/** `isPassing`: one of many, of a live view. */
	show({ label, sure, top, codes = [], like }, isPassing) {
		const verdict = !top.length ? "nothing" : label === null ? "unknown" : sure === false ? "unsure" : "sure";
		const name = label ?? t(`label.${verdict}`);
		const word = t(`answer.${verdict}`);
		this.hidden = false;
		if (this.dataset.verdict !== verdict) this.put({ mark: icon(verdict) });
		this.dataset.verdict = verdict;
		this.put({ word, label: name, warned: codes.map((code) => t(`warn.${code}`)).join(" ") });
		const rows = top.slice(0, 3).map((candidate) => this.#row(candidate));
		if (rows.some((row, at) => row !== this.$.top.children[at]) || !rows.length) this.put({ top: rows });
		if (like || !isPassing) this.#why(like ?? []);
		this.#read(`${word}: ${name}`, isPassing);
	}

	/** A row stays with its class, so that its picture is loaded once. */
	#row({ class_id: id, label, probability }) {
		if (!this.#rows.has(id)) this.#rows.set(id, made("candidate", { photo: photoOf("classes", id) }));
		const row = this.#rows.get(id);
		put(row, { name: label, share: percent(probability) });
		row.$.bar.style.width = `${100 * probability}%`;
		return row;
	}

	#why(like) {
		const nodes = like.map(({ sample_id: id, label }) => made("like", { name: label, photo: photoOf("samples", id) }));
		this.put({ like: nodes.length > 0, likes: nodes });
	}

	#read(text, isPassing) {
		if (text === this.#said) return;
		this.#said = text;
		clearTimeout(this.timer);
		this.timer = setTimeout(() => this.put({ status: text }), isPassing ? STEADY : 0);
	}
}

define("answer", Answer);
