/**
 * TLS on real servers: what works, and the errors of what does not. Sessions over TLS are in
 * `tls_session_test.ts`.
 *
 * @module
 */
import { assert, assertEquals, assertRejects } from "@std/assert";
import { LockSetupError, LockUnavailableError } from "../../core/contract/errors.ts";
import { forwardFrom } from "../../testing/servers/forward.ts";
import { listenOnFreePort } from "../../testing/servers/ports.ts";
import { drain, recordTcp, recordTls } from "../../testing/servers/silent_recorder.ts";
import { within } from "../../testing/conformance/bounds.ts";
import { waitUntil } from "../../testing/servers/wait.ts";
import {
  CONDITION_BOUND_MS,
  ENDING_SESSION_MS,
  LONG_BOUND_MS,
  scaled,
} from "../../testing/time.ts";
import { zooKeeperEnsembleSkip } from "../../testing/servers/zookeeper_ensemble.ts";
import { secure, startTlsScene, type TlsScene } from "../../testing/zookeeper/tls_scene.ts";
import { newRoot } from "../../testing/zookeeper/waiter.ts";
import { ZooKeeperLock, type ZooKeeperLockOptions } from "../../zookeeper/mod.ts";

const skip = await zooKeeperEnsembleSkip();
const ignore = skip !== undefined;
const note = skip ? ` [${skip}]` : "";
const UNTRUSTED = /^UNABLE_TO_VERIFY_LEAF_SIGNATURE$/;
const AUTH = { scheme: "digest", credentials: "billing:hunter2" };
/** Far sooner than an outage would reject. */
const AT_ONCE_MS = LONG_BOUND_MS / 4;

let scene: TlsScene;

Deno.test.beforeAll(async () => {
  if (!ignore) scene = await startTlsScene();
});
Deno.test.afterAll(async () => {
  await scene?.[Symbol.asyncDispose]();
});

function check(name: string, test: () => Promise<void>): void {
  Deno.test(`${name}${note}`, { ignore }, test);
}

/** Checks that each kind of call rejects with a `LockSetupError` that has this code; returns its message. */
async function setupError(
  servers: string,
  options: ZooKeeperLockOptions,
  code: RegExp,
): Promise<string> {
  const warnings: string[] = [];
  await using locks = new ZooKeeperLock(servers, {
    unavailableAfterMs: LONG_BOUND_MS,
    onWarning: (message) => warnings.push(message),
    ...options,
  });
  let message = "";
  for (const call of ["acquire", "tryAcquire", "query"] as const) {
    const rejected = assertRejects(() => locks[call]("n"), LockSetupError);
    const error = await within("the call rejects", rejected, AT_ONCE_MS);
    const { code: found } = error.cause as { code?: string };
    assert(code.test(String(found)), `${found} instead of ${code}`);
    ({ message } = error);
  }
  assertEquals(warnings, []);
  return message;
}

/** Checks that a call rejects with a `LockUnavailableError` when its time is over. */
async function outage(servers: string, options: ZooKeeperLockOptions): Promise<string> {
  await using locks = new ZooKeeperLock(servers, {
    unavailableAfterMs: scaled(800),
    ...options,
  });
  const { message } = await assertRejects(() => locks.acquire("n"), LockUnavailableError);
  return message;
}

check("ZooKeeperLock with 'tls' works with and without a certificate of the client", async () => {
  const cases = [
    [secure(scene.valid), scene.anonymous],
    [secure(scene.valid), scene.certified],
    [secure(scene.strict), scene.certified],
    [`localhost:${scene.valid.securePort}`, scene.anonymous],
    [secure(scene.valid), { ...scene.anonymous, servername: "zk.test" }],
    [secure(scene.expired), { rejectUnauthorized: false }],
  ] as const;
  for (const [servers, tls] of cases) {
    await using locks = new ZooKeeperLock(servers, { tls, auth: AUTH, rootPath: newRoot() });
    await using lease = await locks.acquire("n");
    await lease.renew();
  }
});

check(
  "ZooKeeperLock.acquire() rejects at once, with the cause's code, when no authority of 'tls.ca' has signed the certificate",
  async () => {
    const servers = secure(scene.valid);
    const message = await setupError(
      servers,
      { tls: scene.foreign },
      UNTRUSTED,
    );
    assert(message.includes(servers) && message.includes("'tls.ca'"), message);
    // The authorities that the runtime trusts do not include the one of the test either.
    await setupError(servers, { tls: {} }, UNTRUSTED);
  },
);

check(
  "ZooKeeperLock.acquire() rejects at once, with the cause's code, when the certificate has expired",
  async () => {
    const message = await setupError(
      secure(scene.expired),
      { tls: scene.anonymous },
      /^CERT_HAS_EXPIRED$/,
    );
    assert(message.includes("Renew its certificate"), message);
  },
);

check(
  "ZooKeeperLock.acquire() rejects at once, with the cause's code, when the certificate is for another host",
  async () => {
    const { securePort } = scene.valid;
    const code = /^ERR_TLS_CERT_ALTNAME_INVALID$/;
    const tls = { ...scene.anonymous, servername: "zk1.example" };
    const message = await setupError(secure(scene.valid), { tls }, code);
    assert(message.includes("'tls.servername'"), message);
    // The certificate has 127.0.0.1, but not this address of the same server.
    await using proxy = forwardFrom("::1", 0, securePort);
    await setupError(`[::1]:${proxy.port}`, { tls: scene.anonymous }, code);
  },
);

check(
  "ZooKeeperLock.acquire() rejects at once when the server needs a certificate of the client",
  async () => {
    const tls = scene.anonymous;
    const message = await setupError(
      secure(scene.strict),
      { tls },
      /^ERR_SSL_.*ALERT/,
    );
    assert(message.includes("'tls.cert'"), message);
  },
);

check(
  "ZooKeeperLock.acquire() rejects at once when all servers are unusable, each for its own cause",
  async () => {
    const servers = secure(scene.expired, scene.strict);
    const message = await setupError(servers, { tls: scene.anonymous }, /^CERT_HAS_EXPIRED$|ALERT/);
    assert(message.includes("CERT_HAS_EXPIRED") && message.includes("ALERT"), message);
  },
);

check(
  "ZooKeeperLock uses the other servers when the certificate of one has expired, and warns",
  async () => {
    const warnings = new Set<string>();
    // Each instance tries the servers in a random order.
    await waitUntil("there is a warning", async () => {
      await using locks = new ZooKeeperLock(secure(...scene.ensemble.members), {
        tls: scene.certified,
        rootPath: newRoot(),
        onWarning: (message) => warnings.add(message),
      });
      await (await locks.acquire("n")).release();
      return warnings.size > 0;
    });
    const [warning] = warnings;
    assertEquals(warnings.size, 1);
    assert(warning!.includes(`${secure(scene.expired)}: CERT_HAS_EXPIRED`), warning);
  },
);

check(
  "ZooKeeperLock.acquire() rejects, and suggests 'tls', when the server expects TLS",
  async () => {
    const message = await outage(secure(scene.valid), {});
    assert(/closed the connection without an answer.*set 'tls'/.test(message), message);
  },
);

check(
  "ZooKeeperLock.acquire() rejects at once, and suggests 'tls', when the server answers with an alert of TLS",
  async () => {
    await using server = recordTls(scene.server);
    const message = await setupError(server.address, {}, /^undefined$/);
    assert(message.includes("it speaks TLS). Set 'tls'"), message);
  },
);

check(
  "ZooKeeperLock.acquire() with 'tls' rejects, and says so, when the server does not speak TLS",
  async () => {
    const { connectString } = scene.valid;
    const message = await outage(connectString, { tls: scene.anonymous });
    assert(message.includes(`${connectString}: it ended the TLS handshake`), message);
    assert(message.includes("Does it speak TLS on this port?"), message);
  },
);

check(
  "ZooKeeperLock.acquire() with 'tls' rejects at once when the server's answer is no TLS",
  async () => {
    using listener = listenOnFreePort();
    const answering = (async () => {
      for await (const connection of listener) {
        await connection.write(new TextEncoder().encode("HTTP/1.1 400 Bad Request\r\n\r\n"));
        await drain(connection, () => {});
      }
    })();
    const servers = `127.0.0.1:${listener.addr.port}`;
    await setupError(servers, { tls: scene.anonymous }, /^ERR_SSL_WRONG_VERSION_NUMBER$/);
    listener.close();
    await answering;
  },
);

check(
  "ZooKeeperLock with 'tls' tries the next server when one is silent during the handshake",
  async () => {
    await using mute = recordTcp();
    const servers = `${mute.address},${secure(scene.valid)}`;
    await waitUntil("the silent one was tried", async () => {
      await using locks = new ZooKeeperLock(servers, {
        tls: scene.anonymous,
        sessionTimeoutMs: ENDING_SESSION_MS,
        unavailableAfterMs: CONDITION_BOUND_MS,
        rootPath: newRoot(),
      });
      await (await locks.acquire("n")).release();
      return mute.bytes.length > 0;
    });
    const message = await outage(mute.address, { tls: scene.anonymous });
    assert(message.includes(`${mute.address}: no answer to the TLS handshake`), message);
  },
);

check(
  "ZooKeeperLock with 'tls' sends neither credentials nor requests before the handshake is done",
  async () => {
    await using mute = recordTcp();
    await outage(mute.address, { tls: scene.anonymous, auth: AUTH });
    // Records of a handshake, and nothing that can be read.
    assertEquals(mute.bytes[0], 0x16);
    const text = new TextDecoder("latin1").decode(Uint8Array.from(mute.bytes));
    assert(!text.includes("hunter2") && !text.includes("digest"));
    // A server with a certificate of another authority decrypts what it gets.
    await using server = recordTls(scene.server);
    const servers = server.address;
    const tls = scene.foreign;
    await setupError(servers, { tls, auth: AUTH }, UNTRUSTED);
    await waitUntil("the connections are closed", () => server.open === 0, CONDITION_BOUND_MS);
    assertEquals(server.bytes, []);
  },
);

check("ZooKeeperLock with 'tls' is disposed of in time during a handshake", async () => {
  await using mute = recordTcp();
  const locks = new ZooKeeperLock(mute.address, {
    tls: scene.anonymous,
    disposeTimeoutMs: 500,
    unavailableAfterMs: LONG_BOUND_MS,
  });
  const call = assertRejects(() => locks.acquire("n"), DOMException);
  await waitUntil("the handshake has begun", () => mute.bytes.length > 0, CONDITION_BOUND_MS);
  await within("disposal ends", locks[Symbol.asyncDispose](), AT_ONCE_MS);
  assertEquals((await call).name, "AbortError");
  await waitUntil("the connection is closed", () => mute.open === 0, CONDITION_BOUND_MS);
});
