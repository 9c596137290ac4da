import { call, newKey } from "./api.js";
import { store } from "./store.js";

const OLD = 5000;  // ms after which other tabs may send it
const AT_ONCE = 2;
const LATER = [0, 401, 403, 429, 503, 507];  // refusals that pass
const mine = new Map();  // of this tab, with who waits
const underWay = new Set();
let opened = null;

const settled = (request) => new Promise((resolve, reject) => {
	request.onsuccess = () => resolve(request.result);
	request.onerror = () => reject(request.error);
});

// Without it, photos wait as long as this tab is open.
async function kept(method, ...values) {
	if (!opened) {
		const request = indexedDB.open(`xlda ${location.pathname}`);
		request.onupgradeneeded = () => request.result.createObjectStore("photos", { keyPath: "key" });
		opened = settled(request);
	}
	try {
		const transaction = (await opened).transaction("photos", "readwrite");
		return await settled(transaction.objectStore("photos")[method](...values));
	} catch {
		return [];
	}
}

async function all() {
	const stored = await kept("getAll");
	const found = new Map([...mine.values(), ...stored].map((photo) => [photo.key, photo]));
	store.set({ waiting: found.size });
	return [...found.values()].sort((one, other) => one.at - other.at);
}

async function end(key, outcome, value) {
	mine.get(key)?.[outcome](value);
	mine.delete(key);
	await kept("delete", key);
}

export async function teach(blob, query) {
	const photo = { key: newKey(), at: Date.now(), query, type: blob.type, bytes: await blob.arrayBuffer() };
	await kept("put", photo);
	return new Promise((resolve, reject) => {
		mine.set(photo.key, { ...photo, resolve, reject });
		sendAll();
	});
}

async function sendAll() {
	for (const photo of await all()) {
		const isOurs = mine.has(photo.key) || Date.now() - photo.at > OLD;
		const canSend = underWay.size < AT_ONCE && store.get("isThere") && !underWay.has(photo.key);
		if (isOurs && canSend) send(photo);
	}
}

async function send({ key, query, bytes, type }) {
	const body = new Blob([bytes], { type });
	underWay.add(key);
	let wait = 0;
	try {
		let answer = await call("POST", "v1/samples", { query, body, key });
		if (answer.learned === false && !mine.has(key)) {  // nobody is there to decide
			const anyway = { query: { ...query, unless_warned: false }, body, key: `${key}-anyway` };
			answer = await call("POST", "v1/samples", anyway);
		}
		await end(key, "resolve", answer);
	} catch (error) {
		if (LATER.includes(error.status)) wait = 2000;
		else await end(key, "reject", error);
	}
	underWay.delete(key);
	setTimeout(sendAll, wait);
}

export async function dropGroup(group) {
	for (const { key, query } of await all()) {
		if (query.group === group && !underWay.has(key)) await end(key, "resolve", { learned: false });
	}
	await all();
}

export function startOutbox() {
	store.on("isThere", sendAll);
	setInterval(() => store.get("waiting") && sendAll(), OLD);
}
