import { chart } from "./chart.js";
import { define, get, number, percent, Screen, t } from "./kit.js";
import { letPhoneIn } from "./pairing.js";

const megabytes = (bytes) => t("megabytes", { size: number(Math.round(bytes / 1e6)) });

define("knows", class extends Screen {
	pair = letPhoneIn;

	async load() {
		const [model, { history }] = await Promise.all([get("v1/model"), get("v1/model/history")]);
		const { expected_accuracy: expected, disk } = model;
		const points = history.map(({ visit }) => visit);
		const [first, last] = [points[0], points.at(-1)].map((one) => one && percent(one.accuracy));
		this.put({
			classes: number(model.classes), samples: number(model.samples), free: megabytes(disk.free_bytes),
			photos: disk.photos.kept ? megabytes(disk.photos.bytes) : t("knows.photos.none"),
			chart: first ? chart(points, t("knows.chart", { first, last })) : t("knows.time.none"),
			band: Boolean(first), pair: model.can_pair,
		});
		if (!expected) return this.put({ says: t("knows.too.little") });
		const { accuracy, low, high } = expected.visit;
		this.put({
			accuracy: percent(accuracy),
			says: t("knows.says", { n: Math.round(100 * accuracy), low: percent(low), high: percent(high) }),
			same: t("knows.same", { share: percent(expected.same.accuracy) }),
		});
	}
});
