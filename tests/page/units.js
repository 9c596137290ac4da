// Tests of the page's modules, in a browser: each exported function throws where something is wrong.
import { described, together } from "/page/history.js";
import { keyedList } from "/page/keyed_list.js";
import { paged } from "/page/paged.js";
import { difference, greyOf, prepared } from "/page/photos.js";
import { Store } from "/page/store.js";

function same(found, expected) {
	const [one, other] = [JSON.stringify(found), JSON.stringify(expected)];
	if (one !== other) throw new Error(`${one}, expected ${other}`);
}

const turn = () => new Promise((resolve) => setTimeout(resolve));
const frame = () => new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve)));

export async function a_listener_is_told_at_once_and_then_once_a_turn() {
	const store = new Store();
	const told = [];
	store.on(["one", "other"], () => told.push([store.get("one"), store.get("other")]));
	store.set({ one: 1 });
	store.set({ one: 2, other: 3 });
	same(told, [[null, null]]);
	await turn();
	same(told, [[null, null], [2, 3]]);
}

export async function a_value_that_is_the_same_is_no_change() {
	const store = new Store();
	store.set({ one: 1 });
	await turn();
	let n = 0;
	store.on("one", () => n++);
	store.set({ one: 1, other: 2 });
	await turn();
	same(n, 1);
}

export async function who_has_ended_is_not_told_even_by_another_listener_of_the_same_turn() {
	const store = new Store();
	let n = 0;
	let isSet = false;
	store.on("one", () => isSet && end());
	const end = store.on("one", () => n++);
	isSet = true;
	store.set({ one: 1 });
	await turn();
	same(n, 1);
}

export async function an_event_counts_once_and_an_old_one_not_at_all() {
	const store = new Store();
	const taken = [];
	const end = store.onEvent(({ seq }) => taken.push(seq));
	for (const seq of [3, 3, 2, 4, 1, 4, 7]) store.take({ seq });
	same(taken, [3, 4, 7]);
	same(store.get("seq"), 7);
	end();
	store.take({ seq: 8 });
	same(taken, [3, 4, 7]);
}

/** A list of rows, 40 pixels each. */
function listed(n, more = {}) {
	scrollTo(0, 0);
	document.body.replaceChildren(document.createElement("div"));
	const made = [];
	const create = ({ key }) => {
		const node = document.createElement("button");
		node.textContent = key;
		node.style.position = "absolute";
		made.push(key);
		return node;
	};
	const host = document.body.firstChild;
	host.style.position = "relative";
	const list = keyedList(host, { create, ...more });
	const rows = Array.from({ length: n }, (_, at) => ({ key: `row ${at}`, height: 40 }));
	list.show(rows);
	return { host, list, rows, made, texts: () => [...host.children].map((node) => node.textContent) };
}

export async function of_ten_thousand_rows_those_in_sight_are_in_the_document() {
	const { host, list, texts } = listed(10_000);
	same(host.style.height, "400000px");
	if (host.children.length > 60) throw new Error(`${host.children.length} elements`);
	same(texts()[0], "row 0");
	scrollTo(0, 200_000);
	await frame();
	if (host.children.length > 80) throw new Error(`${host.children.length} elements after scrolling`);
	if (!list.node("row 5000") || list.node("row 0")) throw new Error("other rows are there");
	same(list.node("row 5000").style.top, "200000px");
	list.end();
}

export async function pictures_are_loaded_once_they_do_not_fly_past() {
	const create = () => {
		const image = new Image();
		image.dataset.src = "data:,";
		return image;
	};
	const { host, list } = listed(10_000, { create });
	const loaded = () => [...host.children].filter((image) => image.src).length;
	const n = loaded();
	if (!n || n < host.children.length) throw new Error("those that are shown at first are not loaded");
	scrollTo(0, 100_000);
	await frame();
	same(loaded(), 0);
	await new Promise((resolve) => setTimeout(resolve, 300));
	same(loaded(), host.children.length);
	list.end();
}

export async function elements_stay_with_their_keys_and_in_the_order_of_the_rows() {
	const { host, list, rows, made, texts } = listed(8);
	const kept = list.node("row 3");
	list.show([{ key: "new", height: 100 }, rows[5], rows[3], rows[0]]);
	same(texts(), ["new", "row 5", "row 3", "row 0"]);
	if (list.node("row 3") !== kept) throw new Error("it was made anew");
	same(kept.style.top, "140px");
	same(made.filter((key) => key === "row 3").length, 1);
	same(host.style.height, "220px");
	list.end();
}

export async function what_has_the_focus_stays_in_the_document() {
	const { list, texts } = listed(10_000);
	list.node("row 2").focus();
	scrollTo(0, 300_000);
	await frame();
	same(document.activeElement.textContent, "row 2");
	same(texts()[0], "row 2");
	list.node("row 2").blur();
	scrollTo(0, 300_100);
	await frame();
	if (list.node("row 2")) throw new Error("it is still there");
	list.end();
}

export async function a_row_that_is_revealed_can_be_seen() {
	const { list } = listed(1000);
	for (const at of [700, 20, 999, 0]) {
		const { top, bottom } = list.reveal(`row ${at}`).getBoundingClientRect();
		if (top < 0 || bottom > innerHeight) throw new Error(`row ${at} is at ${top} to ${bottom}`);
	}
	list.end();
}

export async function the_end_is_told_when_it_comes_into_sight() {
	let n = 0;
	const { list } = listed(1000, { nearEnd: () => n++ });
	same(n, 0);
	scrollTo(0, 40_000);
	await frame();
	if (!n) throw new Error("nobody was told");
	list.end();
	n = 0;
	scrollTo(0, 0);
	scrollTo(0, 40_000);
	await frame();
	same(n, 0);
}

export async function pages_are_read_one_by_one_and_again_as_far_as_before() {
	const asked = [];
	const shown = [];
	const { load, more } = paged(async (given) => {
		const after = given || "0";
		asked.push(after);
		const at = Number(after);
		return { items: [at, at + 1], next: at < 4 ? String(at + 2) : null };
	}, "items", (items, first) => shown.push([items, first.items]));
	await load();
	await more();
	await load();
	await more();
	same(shown, [[[0, 1], [0, 1]], [[0, 1, 2, 3], [0, 1]], [[0, 1, 2, 3], [0, 1]], [[0, 1, 2, 3, 4, 5], [0, 1]]]);
	same(asked, ["0", "2", "0", "2", "4"]);
	same(Boolean(await more()), false);
}

function drawn(width, height, light, x) {
	const canvas = Object.assign(document.createElement("canvas"), { width, height });
	const context = canvas.getContext("2d");
	context.fillStyle = `rgb(${light}, ${light}, ${light})`;
	context.fillRect(0, 0, width, height);
	context.fillStyle = `rgb(${light + 90}, ${light + 90}, ${light + 90})`;
	context.fillRect(x, height / 4, width / 4, height / 2);
	return canvas;
}

export async function a_frame_differs_by_what_is_in_it_and_not_by_the_light() {
	const first = greyOf(drawn(320, 240, 60, 20));
	same(difference(first, first), 0);
	if (difference(first, greyOf(drawn(320, 240, 80, 20))) > 1) throw new Error("light counts");
	if (difference(first, greyOf(drawn(320, 240, 60, 140))) < 3.5) throw new Error("a move does not count");
}

export async function a_photo_is_scaled_down_and_a_small_one_is_sent_as_it_is() {
	const file = (canvas, type) => new Promise((resolve) => canvas.toBlob(resolve, type));
	const small = await file(drawn(300, 200, 60, 20), "image/png");
	if ((await prepared(small)) !== small) throw new Error("it was changed");
	const scaled = await prepared(await file(drawn(3200, 800, 60, 20), "image/png"));
	const { width, height } = await createImageBitmap(scaled);
	same([width, height, scaled.type], [1600, 400, "image/jpeg"]);
}

/** A JPEG file that is said to lie on its side. */
async function turned(width, height) {
	const canvas = drawn(width, height, 60, 0);
	const blob = await new Promise((resolve) => canvas.toBlob(resolve, "image/jpeg"));
	const exif = [0xff, 0xe1, 0, 34, 69, 120, 105, 102, 0, 0, 77, 77, 0, 42, 0, 0, 0, 8, 0, 1,
		1, 18, 0, 3, 0, 0, 0, 1, 0, 6, 0, 0, 0, 0, 0, 0];
	return new Blob([blob.slice(0, 2), new Uint8Array(exif), blob.slice(2)], { type: "image/jpeg" });
}

export async function a_large_jpeg_is_scaled_and_upright_whether_or_not_the_browser_can_read_it_small() {
	const small = await turned(1500, 800);
	if ((await prepared(small)) !== small) throw new Error("a small one was changed");
	const large = await turned(4000, 2000);
	const { ImageDecoder } = window;
	for (const known of [ImageDecoder, undefined]) {
		window.ImageDecoder = known;
		const { width, height } = await createImageBitmap(await prepared(large));
		if (height > 1600 || height < 1200 || Math.abs(height / width - 2) > 0.01) {
			throw new Error(`${width} x ${height}`);
		}
	}
	window.ImageDecoder = ImageDecoder;
	const broken = new Blob([large.slice(0, 60)], { type: "image/jpeg" });
	if ((await prepared(broken)) !== broken) throw new Error("the service says what is wrong with it");
}

export async function a_burst_is_one_line_of_the_history() {
	const event = (seq, more) => ({ seq, operation: "learn", group: "a", undone: false, label: "kiwi", ...more });
	const lines = together([event(5, { group: null }), event(4), event(3), event(2, { group: "b" }), event(1, { undone: true, group: "b" })]);
	same(lines.map(({ seqs, n }) => [seqs, n]), [[[5], 1], [[4, 3], 2], [[2], 1], [[1], 1]]);
}

export async function an_undo_says_what_it_undid_and_a_redo_what_is_there_again() {
	const found = new Map([[1, { seq: 1, operation: "learn", label: "kiwi" }], [2, { seq: 2, operation: "undo", undoes: [1] }],
		[3, { seq: 3, operation: "undo", undoes: [2] }]]);
	same(described(found.get(1), found), "did.learn");  // texts are not loaded: keys stand for them
	same(described(found.get(2), found), "done.undo");
	same(described(found.get(3), found), "done.redo");
	same(described({ operation: "correct", new: "kiwi" }, found), "did.label");
	same(described({ operation: "feedback", said: "unknown" }, found), "did.unknown");
}
