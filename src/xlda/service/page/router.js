// Every state of the page is a link: what stands after # says which screen is shown, and what of it.

/** The parts of the address: `#/class/12ab` is `["class", "12ab"]`. */
export function place() {
	try {
		return location.hash.slice(2).split("/").map(decodeURIComponent);
	} catch {
		return [];
	}
}

export const link = (...parts) => `#/${parts.map(encodeURIComponent).join("/")}`;

export const go = (...parts) => void (location.hash = link(...parts));

/** Change the address without going anywhere. */
export const nowAt = (...parts) => history.replaceState(null, "", link(...parts));
