import { get, newKey } from "./api.js";
import { store } from "./store.js";

const [SAYS, PATIENCE] = [1000, 2500];  // ms

const broke = () => get("healthz").catch(() => {});

// One tab listens, says so every second, and passes on what comes; locks would need https.
export function listen() {
	const id = newKey();
	const channel = new BroadcastChannel(`xlda ${location.pathname}`);
	const say = (message) => channel.postMessage({ id, ...message });
	let [source, heardAt] = [null, 0];

	function close() {
		source?.close();
		source = null;
	}

	function open() {
		const opened = (source = new EventSource(`v1/events?since=${store.get("seq")}`));
		say();
		source.onmessage = ({ data }) => {
			const event = JSON.parse(data);
			store.take(event);
			say({ event });
		};
		source.onerror = () => {
			broke();
			say({ isBroken: true });
			if (opened.readyState === EventSource.CLOSED) close();
		};
	}

	function look() {
		if (source) say();
		else if (Date.now() - heardAt > PATIENCE) open();
	}

	channel.onmessage = ({ data: { id: other, asks, leaves, event, isBroken } }) => {
		if (asks) return source && say();
		if (isBroken) broke();
		if (event) store.take(event);
		heardAt = leaves ? 0 : Date.now();
		if (leaves) setTimeout(look, 200 * Math.random());
		else if (other < id) close();  // two listen: one of them stays
	};
	say({ asks: true });
	setTimeout(look, 150);
	setInterval(look, SAYS);
	addEventListener("pagehide", () => source && say({ leaves: true }, close()));
}
