// The browser's session: requests that change something carry a token against forged requests, which every answer to a
// session has in a header. Requests with a bearer token of a proxy have no session and need none.

import { recall, remember } from "../browser/storage";
import { DisconnectedError, errorOf } from "./problem";
import { serviceRoot } from "./root";

const knownKey = "training.signed-in";
const header = "x-csrf-token";
let token = "";

/** Whether this page has a session, which can be ended. */
export function hasSession(): boolean {
  return token !== "";
}

/** Whether a session may have ended: of this browser, which had one before, or of another dashboard, which signs people in. */
export function wasSignedIn(): boolean {
  return serviceRoot !== "" || recall(knownKey) !== null;
}

/** `fetch` with the session's token. If the session is another one now, it asks once more with the new token. */
export async function sessionFetch(request: Request): Promise<Response> {
  const again = request.method === "GET" ? undefined : request.clone();
  const response = await send(request);
  if (!again || response.status !== 403 || !(await isAboutToken(response.clone()))) return response;
  await send(new Request("/session", { headers: { accept: "application/json" } }));
  return send(again);
}

async function send(request: Request): Promise<Response> {
  if (token && request.method !== "GET") request.headers.set(header, token);
  const response = await fetch(request);
  const given = response.headers.get(header);
  if (given && !token) remember(knownKey, "yes");
  token = given ?? token;
  return response;
}

async function isAboutToken(response: Response): Promise<boolean> {
  const problem = (await response.json().catch(() => undefined)) as { reason?: string } | undefined;
  return problem?.reason === "CsrfToken";
}

/** Where a person signs in, and comes back from to this page. Another dashboard asks for that when its page is loaded. */
export function signInAddress(): string {
  const { pathname, search } = window.location;
  if (serviceRoot) return pathname + search;
  return `/signin?${new URLSearchParams({ next: pathname + search })}`;
}

/** Ends the session. If the service cannot end it now, the session goes on, and the error says why. */
export async function signOut(): Promise<void> {
  const response = await sessionFetch(new Request("/signout", { method: "POST" })).catch((cause: unknown) => {
    throw new DisconnectedError(cause);
  });
  if (!response.ok) throw errorOf(response.status, await response.json().catch(() => undefined));
  window.location.assign("/signin");
}
