export class Store {
	#values = { seq: 0 };
	#listeners = new Set();
	#changed = new Set();

	get(name) {
		return this.#values[name];
	}

	// Listeners are told once a turn.
	set(changes) {
		for (const [name, value] of Object.entries(changes)) {
			if (Object.is(this.#values[name], value)) continue;
			this.#values[name] = value;
			if (!this.#changed.size) queueMicrotask(() => this.#tell());
			this.#changed.add(name);
		}
	}

	on(names, listener) {
		listener();
		return this.#add({ names: [names].flat(), listener });
	}

	onEvent(listener) {
		return this.#add({ names: [], onEvent: listener });
	}

	// It may come by two ways, and counts once.
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

export const store = new Store();
store.set({ isThere: true, waiting: 0, toReview: 0 });
