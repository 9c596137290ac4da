// Undo and redo of what was done in this browser. The service undoes exactly; here is what came last.
import { change } from "./api.js";
import { note, noteError } from "./notes.js";
import { dropGroup } from "./outbox.js";
import { store } from "./store.js";
import { t } from "./texts.js";

const MOST = 100;
const PLACE = `undo ${location.pathname}`;
const load = () => JSON.parse(localStorage[PLACE] ?? '{"done": [], "undone": []}');

function show() {
	const { done, undone } = load();
	store.set({ undo: done.at(-1)?.text, redo: undone.at(-1)?.text });
}

function save({ done, undone }) {
	localStorage[PLACE] = JSON.stringify({ done: done.slice(-MOST), undone: undone.slice(-MOST) });
	show();
}

/** Remember an act: `{seqs}` or `{group}`, with the text that names it. */
export function did(entry) {
	const others = load().done.filter(({ group }) => !group || group !== entry.group);
	save({ done: [...others, entry], undone: [] });
}

/** Make a change that can be undone. A note names it and offers that. */
export async function act(text, ...asked) {
	const answer = await change(...asked);
	tell(text, [answer.seq]);
	return answer;
}

export function tell(text, seqs) {
	did({ seqs, text });
	note(text, t("undo"), undo);
}

let turning = Promise.resolve();

/** Turn the last act round: one after the other, however fast the keys come. */
const turn = (...way) => (turning = turning.then(() => turnOne(...way)).catch(noteError));

export const undo = () => turn("undo", "done", "undone", "redo", redo);
export const redo = () => turn("redo", "undone", "done", "undo", undo);

async function turnOne(name, from, to, otherName, other) {
	const stacks = load();
	const { group, seqs, text } = stacks[from].pop() ?? {};
	if (!text) return note(t(`nothing.${name}`));
	if (group) await dropGroup(group);
	try {
		const { seq } = await change("POST", "v1/events:undo", group ? { group } : { seqs });
		stacks[to].push({ seqs: [seq], text });
		note(t(`done.${name}`, { what: text }), t(otherName), other);
	} catch (error) {
		if (![404, 409].includes(error.status)) throw error;
		noteError(error);  // it cannot be undone any more, and is in nobody's way
	}
	save(stacks);
}

addEventListener("storage", show);
show();
