import { change } from "./api.js";
import { note, noteError } from "./notes.js";
import { dropGroup } from "./outbox.js";
import { store } from "./store.js";
import { t } from "./texts.js";

const MOST = 100;
const PLACE = `undo ${location.pathname}`;
const load = () => JSON.parse(localStorage[PLACE] ?? '{"undo": [], "redo": []}');

function show() {
	const stacks = load();
	store.set({ undo: stacks.undo.at(-1)?.text, redo: stacks.redo.at(-1)?.text });
}

function save(stacks) {
	localStorage[PLACE] = JSON.stringify({ undo: stacks.undo.slice(-MOST), redo: stacks.redo });
	show();
}

export function did(entry) {
	const others = load().undo.filter(({ group }) => !group || group !== entry.group);
	save({ undo: [...others, entry], redo: [] });
}

export function tell(text, seqs) {
	did({ seqs, text });
	note(text, t("undo"), undo);
}

export async function act(text, ...asked) {
	const answer = await change(...asked);
	tell(text, [answer.seq]);
	return answer;
}

let turning = Promise.resolve();

// One after the other, however fast keys come.
const turn = (...way) => (turning = turning.then(() => turnOne(...way)).catch(noteError));

export const undo = () => turn("undo", "redo", redo);
export const redo = () => turn("redo", "undo", undo);

async function turnOne(name, otherName, other) {
	const stacks = load();
	const { group, seqs, text } = stacks[name].pop() ?? {};
	if (!text) return note(t(`nothing.${name}`));
	if (group) await dropGroup(group);
	try {
		const { seq } = await change("POST", "v1/events:undo", group ? { group } : { seqs });
		stacks[otherName].push({ seqs: [seq], text });
		note(t(`done.${name}`, { what: text }), t(otherName), other);
	} catch (error) {
		if (![404, 409].includes(error.status)) throw error;
		noteError(error);  // and is in nobody's way
	}
	save(stacks);
}

addEventListener("storage", show);
show();
