export function place() {
	try {
		return location.hash.slice(2).split("/").map(decodeURIComponent);
	} catch {
		return [];
	}
}

export const link = (...parts) => `#/${parts.map(encodeURIComponent).join("/")}`;

export const go = (...parts) => void (location.hash = link(...parts));

export const nowAt = (...parts) => history.replaceState(null, "", link(...parts));
