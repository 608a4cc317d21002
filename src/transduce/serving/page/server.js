// Requests to the server. Errors are sentences; a request that the server is too busy for is sent again when it says.

const KEY = "transduce-api-key";
const TRIES = 6;
const UNREACHABLE_SECONDS = 5;

/** The key of this tab; it ends with the tab. */
export function apiKey() {
  return sessionStorage.getItem(KEY) ?? "";
}

export function keepApiKey(key) {
  sessionStorage.setItem(KEY, key.trim());
}

export async function readSettings() {
  const answer = await attempt("v1/settings", {});
  if (!answer.ok) throw new Error(await message(answer));
  return answer.json();
}

/**
 * The answer to a request with a JSON body. Where the server is busy, `onWait(message)` hears why and how long the
 * request waits. Throws an Error whose message is for the reader, or an AbortError.
 */
export async function ask(path, body, signal, onWait) {
  for (let tries = 1; ; tries++) {
    const answer = await attempt(path, {
      method: "POST",
      headers: { "Content-Type": "application/json", ...(apiKey() && { Authorization: `Bearer ${apiKey()}` }) },
      body: JSON.stringify(body),
      signal,
    });
    if (answer.ok) return answer;
    const seconds = Number(answer.headers.get("Retry-After"));
    const text = await message(answer);
    if (!(seconds > 0) || tries === TRIES) throw new Error(text);
    onWait(`${text}. The page tries again in ${seconds} s.`);
    await pause(1000 * seconds, signal);
  }
}

/** The answer of the server; where there is none, an answer that asks to try again. */
async function attempt(path, options) {
  try {
    return await fetch(path, options);
  } catch (error) {
    if (options.signal?.aborted) throw error;
    const text = JSON.stringify({ error: "The server cannot be reached" });
    return new Response(text, { status: 503, headers: { "Retry-After": String(UNREACHABLE_SECONDS) } });
  }
}

/** The message of a failed request. */
async function message(answer) {
  try {
    return (await answer.json()).error;
  } catch {
    return `The server answered with status ${answer.status}`;
  }
}

/** Resolves after some milliseconds; rejects when the signal aborts. */
export function pause(milliseconds, signal) {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(resolve, milliseconds);
    signal?.addEventListener("abort", () => {
      clearTimeout(timer);
      reject(signal.reason);
    });
  });
}
