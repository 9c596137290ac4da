// `read(after)` gives `{items, next}`; `show` gets all that was read, and the first page.
export function paged(read, show) {
	let [all, following, turn] = [[], "", 0];

	async function load(least = all.length) {
		const mine = ++turn;
		const first = await read();
		let { items, next } = first;
		while (next && items.length < least) {
			const page = await read(next);
			[items, next] = [[...items, ...page.items], page.next];
		}
		if (mine !== turn) return;
		[all, following] = [items, next];
		show(items, first);
	}

	return { load, more: () => following && load(all.length + 1) };
}
