import { define, get, made, newKey, number, pause, put, Screen, t, thumbOf } from "./kit.js";

const SHOWN = 7;
const SOON = 100;  // ms without a key
const plain = (text) => text.normalize("NFD").replace(/\p{M}/gu, "").trim().toLowerCase();
const sameOf = (text, classes) => classes.find(({ label }) => plain(label) === plain(text));

define("name", class extends Screen {
	#found = [];
	#options = Array.from({ length: SHOWN }, () => made("option", { count: number(0) }));
	#active = -1;

	begin() {
		const { input, list } = this.$;
		list.id = newKey();
		input.setAttribute("aria-controls", list.id);
		input.ariaLabel = input.placeholder = t(this.dataset.name ?? "name.what");
		input.oninput = input.onclick = () => this.#suggest();
		input.onblur = () => this.#open(false);
		input.onkeydown = (event) => this.#key(event);
	}

	get value() {
		return this.$.input.value.trim();
	}

	set value(text) {
		this.$.input.value = text;
	}

	focus() {
		this.$.input.focus();
	}

	async #suggest() {
		const text = this.value;
		this.asking?.abort();
		this.asking = new AbortController();
		this.asked = get("v1/classes", { q: text, limit: SHOWN }, this.asking.signal).catch(() => null);
		const answer = await this.asked;
		if (!answer || document.activeElement !== this.$.input) return;
		this.#found = answer.classes;
		this.put({ list: this.#found.map((entry, at) => this.#option(entry, at)) });
		this.#activate(-1);
		this.#open(this.#found.length > 0);
		const same = sameOf(text, this.#found);
		this.put({ hint: text && t(same ? "name.takes" : "name.makes", same ?? { label: text }) });
		clearTimeout(this.timer);
		this.timer = setTimeout(() => this.#found.forEach(({ id, count }, at) => {
			put(this.#options[at], { photo: count && thumbOf("classes", id) });
		}), SOON);
	}

	#option({ id, label, count }, at) {
		const node = this.#options[at];
		put(node, { name: label, count: number(count), photo: node.of === id });
		node.of = id;
		node.id = `${this.$.list.id}-${at}`;
		node.onpointerdown = (event) => this.#take(label, event.preventDefault());
		return node;
	}

	#open(isOpen) {
		this.$.list.hidden = !isOpen;
		this.$.input.ariaExpanded = isOpen;
		if (!isOpen) this.put({ hint: "" });
	}

	#activate(at) {
		const { list, input } = this.$;
		this.#active = at;
		const active = list.children[at];
		for (const node of list.children) node.ariaSelected = node === active;
		input.setAttribute("aria-activedescendant", active?.id ?? "");
		active?.scrollIntoView({ block: "nearest" });
	}

	#key(event) {
		const { key } = event;
		const isOpen = !this.$.list.hidden;
		const n = this.#found.length + 1;  // and the text, which is -1
		const step = isOpen && { ArrowDown: 2, ArrowUp: n }[key];
		if (step) this.#activate(((this.#active + step) % n) - 1);
		else if (key === "Escape" && isOpen) this.#open(false);
		else if (key === "Enter" && !event.isComposing) this.#enter();
		else return;
		event.preventDefault();
		event.stopPropagation();
	}

	async #enter() {
		const text = this.value;
		if (this.#active >= 0 && !this.$.list.hidden) return this.#take(this.#found[this.#active].label);
		const answer = await Promise.race([this.asked, pause(400)]);
		if (text) this.#take(sameOf(text, answer?.classes ?? [])?.label ?? text);
	}

	#take(label) {
		this.asking?.abort();
		this.value = label;
		this.#open(false);
		this.onname(label);
	}
});
