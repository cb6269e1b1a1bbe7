import { connect } from "node:net";
import { text } from "node:stream/consumers";
import { type LockUrl, parseLockUrl } from "../../open/lock_url.ts";
import { bad, type Finding, good, notChecked } from "./finding.ts";
import { tryLock } from "./trial.ts";

const DEFAULT_PORT = 2181;
const DEFAULT_SESSION_MS = 10_000;
const ANSWER_WITHIN_MS = 5_000;
/** Fewer servers cannot lose one. */
const MIN_SERVERS = 3;

/** Judges what the ZooKeeper ensemble at a URL risks for locks. */
export async function judgeZooKeeper(url: string): Promise<Finding[]> {
  const { hosts, query } = parseLockUrl(url);
  const trial = await tryLock(url);
  const isTls = ["tls", "caFile", "certFile"].some((name) => query.has(name));
  return [
    ...trial.findings,
    judgeSession(trial.provableMs, Number(query.get("sessionTimeoutMs") ?? DEFAULT_SESSION_MS)),
    judgeCount(hosts.length),
    ...await Promise.all(hosts.map((host) => judgeServer(host, isTls))),
  ];
}

/** The servers raise or lower the session timeout that a client wants. */
function judgeSession(provableMs: number | null, wantedMs: number): Finding {
  const subject = "session timeout";
  if (provableMs === null) return notChecked(subject, "there was no session");
  // The first lease of a session is provable for all of its timeout but 1 %.
  const grantedMs = Math.round(provableMs / 0.99);
  if (grantedMs > wantedMs * 0.8 && grantedMs < wantedMs * 1.2) {
    return good(subject, `${wantedMs} ms`);
  }
  const text = `about ${grantedMs} ms instead of ${wantedMs} ms: ` +
    (grantedMs < wantedMs
      ? "a shorter pause loses all locks of a process"
      : "a dead holder blocks the others for longer");
  return bad(subject, text, "minSessionTimeout and maxSessionTimeout in zoo.cfg");
}

function judgeCount(count: number): Finding {
  const subject = "servers in the URL";
  if (count >= MIN_SERVERS) return good(subject, `${count}`);
  return bad(
    subject,
    `${count}: no lock while one of them is down`,
    "run three servers, name them all",
  );
}

/** Asks a server for its role, by the word that all versions answer. */
async function judgeServer(
  { host, port = DEFAULT_PORT }: LockUrl["hosts"][number],
  isTls: boolean,
): Promise<Finding> {
  const subject = `server ${host}:${port}`;
  if (isTls) return notChecked(subject, "srvr cannot be asked over TLS");
  try {
    const answer = await ask(host, port, "srvr");
    const mode = /^Mode: (\S+)/m.exec(answer)?.[1];
    if (mode === "leader" || mode === "follower" || mode === "observer") return good(subject, mode);
    if (mode === "standalone") {
      const text = "standalone: no lock while it is down, and locks are lost with its disk";
      return bad(subject, text, "run an ensemble of three servers");
    }
    if (/not currently serving/.test(answer)) {
      return bad(subject, "it serves nobody: it has no quorum", "start the other servers");
    }
    return notChecked(subject, "srvr is not in 4lw.commands.whitelist");
  } catch (error) {
    return bad(
      subject,
      `it does not answer: ${(error as Error).message}`,
      "start it, or leave it out",
    );
  }
}

/** Sends a four-letter word. */
async function ask(host: string, port: number, word: string): Promise<string> {
  const socket = connect({ host, port });
  socket.setTimeout(ANSWER_WITHIN_MS, () => socket.destroy(new Error("no answer")));
  try {
    socket.write(word);
    return await text(socket);
  } finally {
    socket.destroy();
  }
}
