// Short notes at the foot of the page: what happened, and the one thing that can be done about it.
import { made } from "./dom.js";

const SECONDS = 8;
const MOST = 3;

/** Show a note; `action` is the word on its button, and `run` what that does. */
export function note(text, action, run) {
	const host = document.getElementById("notes");
	const node = made("note", { text, action });
	const wait = () => setTimeout(() => (node.matches(":hover, :focus-within") ? wait() : node.remove()), SECONDS * 1000);
	node.$.close.onclick = () => node.remove();
	node.$.action.onclick = () => {
		node.remove();
		run();
	};
	wait();
	host.append(node);
	if (host.children.length > MOST) host.firstChild.remove();
	return node;
}

/** Who is not known is asked, and what was given up on is nobody's concern; all else is told. */
export function noteError(error) {
	if (error.name !== "AbortError" && error.status !== 401) note(error.message).classList.add("bad");
}
