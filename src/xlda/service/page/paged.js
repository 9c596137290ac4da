// `read(after)` gives `{[name], next}`; `show` gets all that was read, and the first page.
export function paged(read, name, show) {
	let [all, first, following, turn] = [[], null, "", 0];

	async function go(items, next, least, mine) {
		do {
			const page = await read(next);
			if (mine !== turn) return;
			first = next ? first : page;
			[items, next] = [[...items, ...page[name]], page.next];
		} while (next && items.length < least);
		[all, following] = [items, next];
		show(all, first);
	}

	return {
		load: (least = all.length) => go([], "", least, ++turn),

		async more() {
			const next = following;
			following = "";
			if (next) await go(all, next, 0, turn);
		},
	};
}
