// What all screens have in common: a template, clicks that call their methods, and an end.
import { fill, put } from "./dom.js";
import { noteError } from "./notes.js";
import { store } from "./store.js";

export class Screen extends HTMLElement {
	ends = [];

	connectedCallback() {
		fill(this, this.localName.slice(5));
		this.onclick = ({ target }) => this.#run(target.closest("[data-act]")?.dataset.act);
		this.begin();
	}

	disconnectedCallback() {
		clearTimeout(this.timer);
		for (const end of this.ends.splice(0)) end();
	}

	/** Call `load` now and a moment after every change, however many there are. */
	begin() {
		let wait = 0;
		this.ends.push(store.on("seq", () => {
			clearTimeout(this.timer);
			this.timer = setTimeout(() => this.#run("load"), wait);
			wait = 300;
		}));
	}

	put(values) {
		put(this, values);
	}

	async #run(name) {
		try {
			await this[name]?.();
		} catch (error) {
			noteError(error);
		}
	}
}

export const define = (name, screen) => customElements.define(`xlda-${name}`, screen);
