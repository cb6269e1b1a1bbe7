/**
 * Sessions over TLS: waiting, handoffs, reconnects, pings, access control lists, and certificates that
 * become bad while leases are held.
 *
 * @module
 */
import { assert, assertEquals, assertRejects } from "@std/assert";
import zooKeeper from "node-zookeeper-client";
import { LockSetupError, LockUnavailableError } from "../../core/contract/errors.ts";
import { startProxy } from "../../testing/servers/proxy.ts";
import { type Shown, untilShown, watchStalls } from "../../testing/processes/stalls.ts";
import { waitUntil } from "../../testing/servers/wait.ts";
import { CONDITION_BOUND_MS, KEPT_SESSION_MS, scaled } from "../../testing/time.ts";
import { called, withClient } from "../../testing/servers/zookeeper_cleanup.ts";
import { zooKeeperEnsembleSkip } from "../../testing/servers/zookeeper_ensemble.ts";
import { observing } from "../../testing/zookeeper/observer.ts";
import { openTransport } from "../../testing/zookeeper/open_transport.ts";
import {
  CLIENT_NAME,
  secure,
  startTlsScene,
  type TlsScene,
} from "../../testing/zookeeper/tls_scene.ts";
import { newRoot, waiter } from "../../testing/zookeeper/waiter.ts";
import { ZooKeeperLock } from "../../zookeeper/mod.ts";
import { readTls } from "../../zookeeper/connection/tls.ts";

const skip = await zooKeeperEnsembleSkip();
const ignore = skip !== undefined;
const note = skip ? ` [${skip}]` : "";

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

check(
  "ZooKeeperLock with 'tls' serves waiters in order, also when connections are cut",
  async () => {
    const rootPath = newRoot();
    await using proxy = startProxy({ hostname: "127.0.0.1", port: scene.valid.securePort });
    const options = {
      tls: scene.certified,
      rootPath,
      sessionTimeoutMs: KEPT_SESSION_MS,
      unavailableAfterMs: CONDITION_BOUND_MS,
    };
    await using holders = new ZooKeeperLock(`127.0.0.1:${proxy.port}`, options);
    await using others = new ZooKeeperLock(secure(scene.strict), options);
    const first = await holders.acquire("n");
    const waiting = [
      await waiter(others, "n"),
      await waiter(holders, "n"),
      await waiter(others, "n"),
    ];
    const served: number[] = [];
    const all = waiting.map(async ({ lease }, i) => {
      const held = await lease;
      served.push(i);
      assertEquals(await held.release(), true);
    });
    proxy.cutAll();
    await first.renew();
    first.throwIfLost();
    proxy.cutAll();
    assertEquals(await first.release(), true);
    await Promise.all(all);
    assertEquals(served, [0, 1, 2]);
  },
);

check("ZooKeeperLock with 'tls' takes and leaves 500 locks at once", async () => {
  const options = {
    tls: scene.anonymous,
    rootPath: newRoot(),
    sessionTimeoutMs: KEPT_SESSION_MS,
    unavailableAfterMs: CONDITION_BOUND_MS,
  };
  await using locks = new ZooKeeperLock(secure(scene.valid), options);
  const leases = await Promise.all(Array.from({ length: 500 }, (_, i) => locks.acquire(`n${i}`)));
  const released = await Promise.all(leases.map((lease) => lease.release()));
  assertEquals(new Set(released), new Set([true]));
});

async function resumeIdle(): Promise<Shown> {
  await using proxy = startProxy({ hostname: "127.0.0.1", port: scene.valid.securePort });
  const tls = readTls(scene.anonymous);
  const sessionTimeoutMs = scaled(2_000);
  using stalls = watchStalls();
  using transport = await openTransport(proxy.port, { tls, sessionTimeoutMs });
  let [answers, latest] = [0, 0];
  proxy.onReply = (_chunk, { id }) => {
    answers = id === latest ? answers + 1 : 1;
    latest = id;
    return "pass";
  };
  /** A stalled machine may outlive the session, which is final for a transport. */
  const isOver = () => transport.state === "expired";
  const hasStalled = () => isOver() && stalls.longestMs > sessionTimeoutMs / 6;
  // The client sends three pings in a session timeout, and nothing else.
  const areKept = () => isOver() || answers >= 5;
  await waitUntil("pings have kept the connection", areKept, CONDITION_BOUND_MS);
  if (hasStalled()) return "stalled";
  assert(!isOver(), "the session should be kept");
  assert(transport.silentMs < sessionTimeoutMs, `${transport.silentMs} ms`);
  const { epoch } = transport;
  const path = `/resumed-${crypto.randomUUID()}`;
  try {
    await transport.createEphemeral(path);
    proxy.cutAll();
    const isBack = () => isOver() || transport.epoch > epoch;
    await waitUntil("it is back", isBack, CONDITION_BOUND_MS);
    await transport.set(path);
  } catch (error) {
    if (hasStalled()) return "stalled";
    throw error;
  }
  return "shown";
}

check(
  "The transport with TLS keeps an idle session, and resumes it after a cut",
  () => untilShown(resumeIdle),
);

check(
  "The transport checks the certificate for the host name when it looks addresses up itself",
  async () => {
    const port = scene.valid.securePort;
    const tls = readTls(scene.anonymous);
    const lookUp = () => Promise.resolve(["127.0.0.9", "127.0.0.1"]);
    const of = (host: string) => ({
      tls,
      lookUp,
      listServers: () => Promise.resolve([{ host, port }]),
    });
    using transport = await openTransport(port, of("zk.test"));
    assertEquals(transport.epoch, 1);
    // The same server at two addresses: the second one is its IPv4 address as an IPv6 address.
    const other = {
      ...of("zk2.test"),
      lookUp: () => Promise.resolve(["127.0.0.1", "::ffff:127.0.0.1"]),
    };
    using refused = await openTransport(port, { ...other, until: "refused" });
    const { code, message } = refused.connectError as Error & { code: string };
    assert(message.includes("zk2.test"), message);
    assertEquals(code, "ERR_TLS_CERT_ALTNAME_INVALID");
  },
);

check(
  "ZooKeeperLock with a client certificate may use znodes that are its subject's alone",
  async () => {
    const rootPath = newRoot();
    await makeFor(rootPath, "x509", `CN=${CLIENT_NAME}`);
    await using certified = new ZooKeeperLock(secure(scene.valid), {
      tls: scene.certified,
      rootPath,
    });
    await (await certified.acquire("n")).release();
    await using anonymous = new ZooKeeperLock(secure(scene.valid), {
      tls: scene.anonymous,
      rootPath,
    });
    const error = await assertRejects(() => anonymous.acquire("other"), LockSetupError);
    assert(error.message.includes("NO_AUTH"), error.message);
  },
);

check(
  "ZooKeeperLock with 'auth' of the scheme x509 creates znodes that are its subject's alone",
  async () => {
    const rootPath = newRoot();
    const auth = { scheme: "x509", credentials: CLIENT_NAME };
    const options = { tls: scene.certified, auth, rootPath };
    await using certified = new ZooKeeperLock(secure(scene.strict), options);
    await using lease = await certified.acquire("n");
    await lease.renew();
    await using anonymous = new ZooKeeperLock(secure(scene.valid), {
      tls: scene.anonymous,
      rootPath,
    });
    const error = await assertRejects(() => anonymous.acquire("n"), LockSetupError);
    assert(error.message.includes("NO_AUTH"), error.message);
  },
);

check(
  "ZooKeeperLock takes a bad certificate for an outage while its session may be alive, and warns",
  async () => {
    const rootPath = newRoot();
    await using proxy = startProxy({ hostname: "127.0.0.1", port: scene.valid.securePort });
    let servers = `127.0.0.1:${proxy.port}`;
    const warnings: string[] = [];
    await using locks = new ZooKeeperLock(() => servers, {
      tls: scene.anonymous,
      rootPath,
      sessionTimeoutMs: 2 * KEPT_SESSION_MS,
      unavailableAfterMs: scaled(1_000),
      onWarning: (message) => warnings.push(message),
    });
    const lease = await locks.acquire("n");
    // Reconnects can reach only the server whose certificate has expired.
    servers = secure(scene.expired);
    proxy.cutAll();
    await waitUntil("there is a warning", () => warnings.length > 0, CONDITION_BOUND_MS);
    const error = await assertRejects(() => locks.acquire("other"), LockUnavailableError);
    assert(error.message.includes("CERT_HAS_EXPIRED"), error.message);
    assertEquals(warnings.length, 1);
    assert(warnings[0]!.includes("CERT_HAS_EXPIRED"), warnings[0]);
    servers = secure(scene.valid);
    await lease.renew();
    assertEquals(await lease.release(), true);
  },
);

/** Creates a znode with one entry in its access control list. */
async function makeFor(path: string, scheme: string, id: string): Promise<void> {
  const { ACL, Id, Permission } = zooKeeper;
  const acl = [new ACL(Permission.ALL, new Id(scheme, id))];
  await withClient(scene.valid.connectString, async (client) => {
    const create = (client as unknown as Creating).create.bind(client);
    await called("Creating the znode", (done) => create(path, null, acl, 0, done));
  });
  await observing(scene.valid.connectString, async (observer) => {
    assert(await observer.exists(path));
  });
}

interface Creating {
  create(
    path: string,
    data: null,
    acl: unknown[],
    mode: number,
    done: (error: unknown, path?: string) => void,
  ): void;
}
