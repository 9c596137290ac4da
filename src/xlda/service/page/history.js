import { act, dated, define, get, icon, made, Screen, t } from "./kit.js";

export function described({ operation, said, n = 1, old, undoes, new: to, label }, found) {
	const undone = found.get(undoes?.[0]);
	if (undone) {
		const first = found.get(undone.undoes?.[0]) ?? undone;
		const what = described({ ...first, undoes: [], n: first.n ?? (undone.undoes ?? undoes).length }, found);
		return t(first === undone ? "done.undo" : "done.redo", { what });
	}
	const key = said ?? (operation === "correct" ? "label" : operation);
	return t(`did.${key}`, { n, old, label: to ?? [label].flat().join(", ") });
}

export function together(events) {
	const lines = [];
	for (const event of events) {
		let line = lines.at(-1);
		const isSame = event.group && line?.group === event.group && line.undone === event.undone;
		if (!isSame) lines.push((line = { ...event, n: 0, seqs: [] }));
		line.n += event.n ?? 1;
		line.seqs.push(event.seq);
	}
	return lines;
}

define("history", class extends Screen {
	async load() {
		const { events } = await get("v1/events/recent", { limit: 200 });
		const found = new Map(events.map((event) => [event.seq, event]));
		const list = together(events).map((line) => this.#line(line, found));
		this.put({ list });
	}

	#line(line, found) {
		const { operation, undone, seqs } = line;
		const actor = line.actor !== "everyone" && line.actor;
		const what = described(line, found);
		const name = operation === "undo" ? "redo" : "undo";
		const node = made("event", {
			text: what, mark: icon(operation), undo: line.can_be_undone && !undone && [icon(name), t(name)],
			hint: [dated(line.time), actor, undone && t("history.undone")].filter(Boolean).join(" · "),
		});
		const text = t(`done.${name}`, { what });
		node.$.undo.onclick = () => act(text, "POST", "v1/events:undo", { seqs });
		node.classList.toggle("undone", undone);
		return node;
	}
});
