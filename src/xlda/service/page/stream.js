// Events of the service: one stream a browser. One tab listens and passes on what comes to the others.
//
// Tabs agree by a channel alone, since locks need a secure context: who listens says so every second, and where
// nobody has for a while, another begins. Should two listen for a moment, the store counts no event twice.
import { newKey } from "./api.js";

const SAYS = 1000;
const PATIENCE = 2500;

export class Stream {
	#id = newKey();
	#heardAt = 0;
	#source = null;
	#channel = new BroadcastChannel(`xlda ${location.pathname}`);

	/** `take(event)` gets each event, `broke()` is called when there is no stream; `seq()` is where to go on. */
	constructor({ take, broke, seq }) {
		Object.assign(this, { take, broke, seq });
		this.#channel.onmessage = ({ data }) => this.#hear(data);
		this.#say({ asks: true });
		setTimeout(() => this.#look(), 150);
		setInterval(() => this.#look(), SAYS);
		addEventListener("pagehide", () => this.#source && this.#say({ leaves: true }, this.#close()));
	}

	get isListening() {
		return this.#source !== null;
	}

	#say(message) {
		this.#channel.postMessage({ id: this.#id, ...message });
	}

	#hear({ id, asks, leaves, event, isBroken }) {
		if (asks) return this.#source && this.#say({});
		if (isBroken) this.broke();
		if (event) this.take(event);
		this.#heardAt = leaves ? 0 : Date.now();
		if (leaves) setTimeout(() => this.#look(), 200 * Math.random());
		else if (id < this.#id) this.#close();  // two listen: one of them stays
	}

	#look() {
		if (this.#source) this.#say({});
		else if (Date.now() - this.#heardAt > PATIENCE) this.#open();
	}

	#open() {
		const source = (this.#source = new EventSource(`v1/events?since=${this.seq()}`));
		this.#say({});
		source.onmessage = ({ data }) => {
			const event = JSON.parse(data);
			this.take(event);
			this.#say({ event });
		};
		source.onerror = () => {
			this.broke();
			this.#say({ isBroken: true });
			if (source.readyState === EventSource.CLOSED && source === this.#source) this.#source = null;
		};
	}

	#close() {
		this.#source?.close();
		this.#source = null;
	}
}
