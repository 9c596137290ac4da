import { define, icon, made, percent, photoOf, put, Screen, t } from "./kit.js";

const STEADY = 700;  // ms

define("answer", class extends Screen {
	#rows = new Map();

	begin() {}

	show({ label, sure, top, codes = [], like }, isPassing) {
		const verdict = !top.length ? "nothing" : label === null ? "unknown" : sure ? "sure" : "unsure";
		const [word, name] = [t(`answer.${verdict}`), label ?? t(`label.${verdict}`)];
		if (this.dataset.verdict !== verdict) this.put({ mark: icon(verdict) });
		this.dataset.verdict = verdict;
		this.put({ word, label: name, warned: codes.map((code) => t(`warn.${code}`)).join(" ") });
		this.put({ top: top.slice(0, 3).map((candidate) => this.#row(candidate)) });
		if (like || !isPassing) {
			const likes = (like ?? []).map(({ sample_id: id, label: name }) =>
				made("like", { name, photo: photoOf("samples", id) }));
			this.put({ like: likes.length > 0, likes });
		}
		const status = `${word}: ${name}`;
		if (this.said === status) return;
		this.said = status;
		clearTimeout(this.timer);
		this.timer = setTimeout(() => this.put({ status }), isPassing ? STEADY : 0);
	}

	// A row stays with its class: its picture is loaded once.
	#row({ class_id: id, label, probability }) {
		const row = this.#rows.get(id) ?? made("candidate", { photo: photoOf("classes", id) });
		this.#rows.set(id, row);
		put(row, { name: label, share: percent(probability) });
		row.$.bar.style.width = `${100 * probability}%`;
		return row;
	}
});
