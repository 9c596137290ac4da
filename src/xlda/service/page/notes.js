import { made } from "./dom.js";

const SECONDS = 8;

export function note(text, action, run) {
	const node = made("note", { text, action });
	const leave = () => (node.matches(":hover, :focus-within") ? wait() : node.remove());
	const wait = () => setTimeout(leave, SECONDS * 1000);
	node.$.close.onclick = () => node.remove();
	node.$.action.onclick = () => run(node.remove());
	wait();
	document.getElementById("notes").replaceChildren(node);
	return node;
}

// Who is not known is asked; what was given up is nobody's concern.
export function noteError(error) {
	if (error.name !== "AbortError" && error.status !== 401) note(error.message).classList.add("bad");
}
