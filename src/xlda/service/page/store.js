// What the page knows: a few named values, and the events of the service in their order.

export class Store {
	#values;
	#listeners = new Set();
	#changed = new Set();

	constructor(values = {}) {
		this.#values = { seq: 0, ...values };
	}

	get(name) {
		return this.#values[name];
	}

	/** Change values. Whoever listens is told once, after all changes of this turn. */
	set(changes) {
		for (const [name, value] of Object.entries(changes)) {
			if (Object.is(this.#values[name], value)) continue;
			this.#values[name] = value;
			if (!this.#changed.size) queueMicrotask(() => this.#tell());
			this.#changed.add(name);
		}
	}

	/** Call `listener` now and whenever one of these values changes; gives what ends that. */
	on(names, listener) {
		listener();
		return this.#add({ names: [names].flat(), listener });
	}

	/** Call `listener(event)` for every event of the service; gives what ends that. */
	onEvent(listener) {
		return this.#add({ names: [], onEvent: listener });
	}

	/** An event of the service came, perhaps by two ways: it counts once, and an old one not at all. */
	take(event) {
		if (event.seq <= this.#values.seq) return;
		this.set({ seq: event.seq });
		for (const { onEvent } of [...this.#listeners]) onEvent?.(event);
	}

	#add(entry) {
		this.#listeners.add(entry);
		return () => this.#listeners.delete(entry);
	}

	#tell() {
		const changed = this.#changed;
		this.#changed = new Set();
		for (const entry of [...this.#listeners]) {
			if (this.#listeners.has(entry) && entry.names.some((name) => changed.has(name))) entry.listener();
		}
	}
}

/** `isThere`: whether the service is; `waiting`: photos to send; `undo`, `redo`: what they would do. */
export const store = new Store({ isThere: true, waiting: 0, toReview: 0, undo: "", redo: "" });
