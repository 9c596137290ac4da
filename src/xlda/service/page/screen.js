import { fill, put } from "./dom.js";
import { store } from "./store.js";

export class Screen extends HTMLElement {
	ends = [];

	connectedCallback() {
		fill(this, this.localName.slice(5));
		this.onclick = ({ target, detail }) => {
			const { dataset = {} } = target.closest("[data-act]") ?? {};
			if (detail < 2) this[dataset.act]?.(dataset);  // a double click is one
		};
		this.begin();
	}

	disconnectedCallback() {
		clearTimeout(this.timer);
		for (const end of this.ends.splice(0)) end();
	}

	begin() {
		let wait = 0;
		this.ends.push(store.on("seq", () => {
			clearTimeout(this.timer);
			this.timer = setTimeout(() => this.load(), wait);
			wait = 300;
		}));
	}

	clear() {
		this.tiles.select([]);
	}

	put(values) {
		put(this, values);
	}
}

export const define = (name, screen) => customElements.define(`xlda-${name}`, screen);
