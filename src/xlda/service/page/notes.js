import { made } from "./dom.js";

const LONG = 8000;  // ms

export function note(text, action, run) {
	const node = made("note", { text, action });
	const leave = () => (node.matches(":hover, :focus-within") ? wait() : node.remove());
	const wait = () => setTimeout(leave, LONG);
	node.$.close.onclick = () => node.remove();
	node.$.action.onclick = () => run(node.remove());
	wait();
	document.getElementById("notes").replaceChildren(node);
	return node;
}

// Who is not known is asked, and needs no note.
export function noteError({ status, message }) {
	if (status !== 401) note(message).classList.add("bad");
}
