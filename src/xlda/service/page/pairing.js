// Who comes in: by a code in the address, by a code or token that is typed, or by a phone that reads a code here.
import { call, change } from "./api.js";
import { ask } from "./dialogs.js";
import { noteError } from "./notes.js";
import { store } from "./store.js";
import { t } from "./texts.js";

const CODE = /^[0-9a-z]{4}-?[0-9a-z]{4}$/i;
const session = (json) => call("POST", "v1/session", { json });

/** A code that came with the address is used, and taken out of it. */
export async function useCode() {
	const code = new URLSearchParams(location.hash.slice(1)).get("code");
	if (!code) return;
	history.replaceState(null, "", "#/");
	await session({ code }).catch(noteError);
}

let asking = null;

/** Ask who this is, once, until the service knows. */
export function signIn() {
	asking ??= ask("sign-in", {}, ({ input, says }, dialog) => {
		dialog.firstChild.onsubmit = async (event) => {
			event.preventDefault();
			const text = input.value.trim();
			try {
				await session(CODE.test(text) ? { code: text } : { token: text });
				location.reload();
			} catch (error) {
				says.textContent = error.status === 401 ? t("sign.wrong") : error.message;
			}
		};
	});
}

/** The one question of the first start: whether photos are kept. */
export async function firstStart() {
	if (!store.get("model").first_start) return;
	const said = await ask("first");
	await change("POST", "v1/settings", { keep_photos: said === "yes" });
}

/** Show a code that lets a phone in. */
export async function letPhoneIn() {
	const { qr, addresses, code } = await change("POST", "v1/pairing", { scope: "teach" });
	const picture = qr && URL.createObjectURL(new Blob([qr], { type: "image/svg+xml" }));
	await ask("pairing", { address: (addresses[0] ?? location.href).split("#")[0], code, qr: picture });
	URL.revokeObjectURL(picture);
}
