// History: what was done, by whom, each with its undo.
import { get } from "./api.js";
import { icon, made } from "./dom.js";
import { noteError } from "./notes.js";
import { define, Screen } from "./screen.js";
import { ago, t } from "./texts.js";
import { act } from "./undo.js";

const WAYS = {  // operation: its text and its icon
	learn: ["taught", "camera"], review: ["taught", "review"], correct: ["is", "tag"], relabel: ["moved", "tag"],
	forget: ["forgotten", "bin"], create: ["created", "tag"], rename: ["renamed", "edit"], merge: ["merged", "merge"],
	remove: ["removed", "bin"], feedback: ["other", "look"], undo: ["other", "undo"],
};
const wayOf = (operation) => WAYS[operation] ?? ["other", "yes"];

/** What an event was, in a sentence; `found` has all that are known, by seq. */
export function described({ operation, said, n = 1, old, undoes, new: to, label = "" }, found) {
	const undone = found.get(undoes?.[0]);
	if (undone) {
		const isRedo = undone.operation === "undo";
		const what = (isRedo && found.get(undone.undoes[0])) || undone;
		const times = Math.max(undoes.length, what.n ?? 1);
		return t(isRedo ? "done.redo" : "done.undo", { what: described({ ...what, n: times, undoes: [] }, found) });
	}
	const key = said === "correct" ? "yes" : said ?? wayOf(operation)[0];
	const name = to ?? [label].flat().join(", ");
	return t(`did.${key}`, { n, old, label: name, gone: old, kept: name });
}

/** Photos that were taught in one go stand in one line. */
export function together(events) {
	const lines = [];
	for (const event of events) {
		const last = lines.at(-1);
		const isSame = event.group && last?.group === event.group && last.undone === event.undone;
		if (!isSame) lines.push({ ...event, n: 0, seqs: [] });
		lines.at(-1).n += event.n ?? 1;
		lines.at(-1).seqs.push(event.seq);
	}
	return lines;
}

class History extends Screen {
	async load() {
		const { events } = await get("v1/events/recent", { limit: 200 });
		const found = new Map(events.map((event) => [event.seq, event]));
		const list = together(events).map((line) => this.#line(line, found));
		this.put({ says: t(list.length ? "history.lead" : "history.empty"), list });
	}

	#line(line, found) {
		const { operation, undone, actor, seqs } = line;
		const what = described(line, found);
		const name = operation === "undo" ? "redo" : "undo";
		const hint = [ago(line.time), actor !== "everyone" && actor, undone && t("history.undone")].filter(Boolean).join(" · ");
		const node = made("event", { text: what, hint, mark: icon(wayOf(operation)[1]), undo: !undone && [icon(name), t(name)] });
		node.$.undo.onclick = () => act(t(`done.${name}`, { what }), "POST", "v1/events:undo", { seqs }).catch(noteError);
		node.classList.toggle("undone", undone);
		return node;
	}
}

define("history", History);
