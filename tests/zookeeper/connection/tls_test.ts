import { assert, assertEquals, assertThrows } from "@std/assert";
import { Buffer } from "node:buffer";
import {
  type Authority,
  type Certificate,
  makeAuthority,
} from "../../../testing/servers/certificates.ts";
import { ZooKeeperLock } from "../../../zookeeper/mod.ts";
import { readTls, type ZooKeeperTls } from "../../../zookeeper/connection/tls.ts";

let authority: Authority;
let client: Certificate;
let other: Certificate;

Deno.test.beforeAll(async () => {
  authority = await makeAuthority();
  client = await authority.issue({ name: "client" });
  other = await authority.issue({ name: "other" });
});
Deno.test.afterAll(async () => {
  await authority[Symbol.asyncDispose]();
});

Deno.test("readTls() takes PEM as strings and buffers, and verifies by default", () => {
  const { ca } = authority;
  const { cert, key } = client;
  assertEquals(readTls({}), { rejectUnauthorized: true });
  const texts = { ca: [ca], cert, key, rejectUnauthorized: true };
  assertEquals(readTls({ ca, cert, key }), texts);
  const bytes = (text: string) => new TextEncoder().encode(text);
  assertEquals(readTls({ ca: [bytes(ca)], cert: Buffer.from(cert), key: bytes(key) }), texts);
  // Several authorities in one file, and a chain behind the certificate.
  const chain = { ca: ca + ca, cert: cert + ca, key, servername: "zk", rejectUnauthorized: false };
  assertEquals(readTls(chain), { ...chain, ca: [ca + ca] });
});

Deno.test("readTls() throws a TypeError that names what it does not know, or the member of a wrong type", () => {
  const bad: [unknown, string][] = [
    [null, "must be an object"],
    ["tls", "must be an object"],
    [{ caFile: "ca.pem", pfx: "x" }, "caFile, pfx"],
    [{ passphrase: "hunter2" }, "passphrase"],
    [{ ca: 1 }, "'ca'"],
    [{ ca: [null] }, "'ca'"],
    [{ cert: {}, key: "" }, "'cert'"],
    [{ cert: client.cert, key: 1 }, "'key'"],
    [{ cert: client.cert }, "both 'cert' and 'key'"],
    [{ key: client.key }, "both 'cert' and 'key'"],
    [{ servername: 1 }, "'servername'"],
    [{ rejectUnauthorized: "false" }, "'rejectUnauthorized'"],
  ];
  for (const [tls, part] of bad) {
    const make = () => new ZooKeeperLock("zk", { tls: tls as ZooKeeperTls });
    const { message } = assertThrows(make, TypeError);
    assert(message.startsWith("Cannot use 'tls': ") && message.includes(part), message);
    assert(!message.includes("hunter2"), message);
  }
});

Deno.test("readTls() throws a RangeError when a member cannot be read, or key and certificate do not match", () => {
  const { cert, key } = client;
  const broken = cert.replace(cert.split("\n")[1]!, "A".repeat(64));
  const encrypted = key.replaceAll("PRIVATE", "ENCRYPTED PRIVATE");
  const bad: [ZooKeeperTls, string][] = [
    [{ ca: "ca.pem" }, "'ca'"],
    [{ ca: [] }, "'ca'"],
    [{ ca: [authority.ca, "garbage"] }, "'ca'"],
    [{ ca: authority.ca + broken }, "'ca'"],
    [{ ca: key }, "'ca'"],
    [{ cert: "client.pem", key }, "'cert'"],
    [{ cert, key: "client-key.pem" }, "'key'"],
    [{ cert, key: cert }, "'key'"],
    [{ cert, key: encrypted }, "encrypted"],
    [{ cert, key: other.key }, "not the key of its 'cert'"],
    [{ servername: "" }, "'servername'"],
    [{ servername: "127.0.0.1" }, "'servername'"],
  ];
  for (const [tls, part] of bad) {
    const { message } = assertThrows(() => readTls(tls), RangeError);
    assert(message.includes(part) && !message.includes("BEGIN"), message);
  }
});
