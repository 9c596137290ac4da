import { ask, call, change, noteError, store, t } from "./kit.js";

const CODE = /^\w{4}-?\w{4}$/;
const session = (json) => call("POST", "v1/session", { json });

export async function useCode() {
	const code = new URLSearchParams(location.hash.slice(1)).get("code");
	if (!code) return;
	history.replaceState(null, "", "#/");
	await session({ code }).catch(noteError);
}

let asking = null;

export function signIn() {
	asking ??= ask("sign-in", {}, ({ input, says }, dialog) => {
		dialog.firstChild.onsubmit = (event) => {
			event.preventDefault();
			const text = input.value.trim();
			const tell = ({ status, message }) => (says.textContent = status === 401 ? t("sign.wrong") : message);
			session({ [CODE.test(text) ? "code" : "token"]: text }).then(() => location.reload(), tell);
		};
	});
}

export async function firstStart(done) {
	if (!store.get("model").first_start) return;
	const keep_photos = (await ask("first")) === "yes";
	done();
	await change("POST", "v1/settings", { keep_photos });
}

export async function letPhoneIn() {
	const { qr, addresses, code } = await change("POST", "v1/pairing", { scope: "teach" });
	const picture = qr && URL.createObjectURL(new Blob([qr], { type: "image/svg+xml" }));
	await ask("pairing", { address: (addresses[0] ?? location.href).split("#")[0], code, qr: picture });
	URL.revokeObjectURL(picture);
}
