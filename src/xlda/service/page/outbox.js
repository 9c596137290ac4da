// Photos that are taught wait here until the service has them: through lost connections and closed tabs, and once.
import { call, newKey } from "./api.js";
import { store } from "./store.js";

const OLD = 20_000;  // milliseconds after which another tab may send what this one has not
const AT_ONCE = 2;
const LATER = [0, 401, 403, 429, 503, 507];  // refusals that pass
const mine = new Map();  // photos of this tab, with who waits for the answer
const underWay = new Set();

const settled = (request) => new Promise((resolve, reject) => {
	request.onsuccess = () => resolve(request.result);
	request.onerror = () => reject(request.error);
});

let opened = null;

/** Ask the browser's own database. Where it keeps nothing, photos wait as long as this tab is open. */
async function kept(work) {
	if (!opened) {
		const request = indexedDB.open(`xlda ${location.pathname}`);
		request.onupgradeneeded = () => request.result.createObjectStore("photos", { keyPath: "key" });
		opened = settled(request);
	}
	return settled(work((await opened).transaction("photos", "readwrite").objectStore("photos")));
}

/** All that waits, the oldest first. */
async function all() {
	const stored = await kept((photos) => photos.getAll()).catch(() => []);
	const found = new Map([...mine.values(), ...stored].map((photo) => [photo.key, photo]));
	store.set({ waiting: found.size });
	return [...found.values()].sort((one, other) => one.at - other.at);
}

async function drop(key) {
	mine.delete(key);
	await kept((photos) => photos.delete(key)).catch(() => {});
}

/** Teach a photo, now or when it can be sent: gives what the service answers, however late that is. */
export async function teach(blob, query) {
	const photo = { key: newKey(), at: Date.now(), query, type: blob.type, body: await blob.arrayBuffer() };
	await kept((photos) => photos.put(photo)).catch(() => {});
	return new Promise((resolve, reject) => {
		mine.set(photo.key, { ...photo, resolve, reject });
		sendAll();
	});
}

/** Send what waits: what this tab has put there, and what others have left. */
async function sendAll() {
	for (const photo of await all()) {
		if (underWay.size >= AT_ONCE || !store.get("isThere")) return;
		const isOurs = mine.has(photo.key) || Date.now() - photo.at > OLD;
		if (isOurs && !underWay.has(photo.key)) send(photo);
	}
}

async function send({ key, query, body, type }) {
	underWay.add(key);
	let wait = 0;
	const { resolve, reject } = mine.get(key) ?? {};
	try {
		const answer = await call("POST", "v1/samples", { query, body, type, key });
		await drop(key);
		resolve?.(answer);
	} catch (error) {
		wait = LATER.includes(error.status) ? 2000 : 0;
		if (!wait) await drop(key);
		if (!wait) reject?.(error);
	}
	underWay.delete(key);
	setTimeout(sendAll, wait);
}

/** What was taken together is not wanted any more: what was not sent yet is not sent. */
export async function dropGroup(group) {
	for (const { key, query } of await all()) {
		if (query.group !== group || underWay.has(key)) continue;
		mine.get(key)?.resolve({ learned: false });
		await drop(key);
	}
	await all();
}

/** Send what an earlier page has left, and what waits whenever the service is there again. */
export function startOutbox() {
	store.on("isThere", sendAll);
	setInterval(() => store.get("waiting") && sendAll(), OLD / 2);
}
