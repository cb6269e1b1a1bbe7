/**
 * Our requests, byte by byte beside those that the client package makes.
 *
 * @module
 */
// deno-lint-ignore-file no-import-prefix -- a private part of the package
import { assert, assertEquals, assertThrows } from "@std/assert";
import { Buffer } from "node:buffer";
import zooKeeper from "node-zookeeper-client";
import jute from "npm:node-zookeeper-client@1.1.3/lib/jute/index.js";
import { childrenReply, frame, reply } from "../../../testing/zookeeper/scripted_server.ts";
import {
  childrenRequest,
  createRequest,
  deleteRequest,
  getRequest,
  ProtocolError,
  readEvent,
  Replies,
  type Request,
  setRequest,
  XID_AT,
} from "../../../zookeeper/connection/wire.ts";

const PATH = "/locks/größe-–-lock-";
const DATA = Buffer.from("label");

/** The bytes of a request as the package makes them. */
function packed(type: string, record: string, ...fields: unknown[]): Buffer {
  const header = new jute.protocol.RequestHeader(77, jute.OP_CODES[type]);
  return new jute.Request(header, new jute.protocol[record](...fields)).toBuffer();
}

/** A frame that was received. */
function received(bytes: Buffer): Replies {
  const replies = new Replies();
  // Its length is that of the bytes, however many the reply should have.
  replies.add(Buffer.from(frame(bytes.subarray(4))));
  assert(replies.next());
  return replies;
}

function bytesOf({ bytes }: Request<unknown>): Buffer {
  bytes.writeInt32BE(77, XID_AT);
  return bytes;
}

// deno-lint-ignore no-explicit-any -- the package has no types
const acls = (list: string) => (zooKeeper as any).ACL[list].map((acl: any) => acl.toRecord());

const REQUESTS: readonly [string, Request<unknown>, Buffer][] = [
  [
    "create",
    createRequest(PATH, DATA, "sequential", true),
    packed("CREATE", "CreateRequest", PATH, DATA, acls("OPEN_ACL_UNSAFE"), 3),
  ],
  [
    "create without data, for the creator",
    createRequest(PATH, null, "persistent", false),
    packed("CREATE", "CreateRequest", PATH, null, acls("CREATOR_ALL_ACL"), 0),
  ],
  ["delete", deleteRequest(PATH), packed("DELETE", "DeleteRequest", PATH, -1)],
  ["set", setRequest(PATH), packed("SET_DATA", "SetDataRequest", PATH, Buffer.alloc(0), -1)],
  ["get", getRequest(PATH), packed("GET_DATA", "GetDataRequest", PATH, false)],
  [
    "get with a watch",
    getRequest(PATH, () => {}),
    packed("GET_DATA", "GetDataRequest", PATH, true),
  ],
  ["children", childrenRequest(PATH), packed("GET_CHILDREN2", "GetChildren2Request", PATH, false)],
];

for (const [name, request, expected] of REQUESTS) {
  Deno.test(`The bytes of the request "${name}" are those of the package`, () => {
    assertEquals(bytesOf(request), expected);
  });
}

/** A reply as a server sends it: one of the package's records behind the head of a reply. */
function answered(...records: { byteLength(): number; serialize(to: Buffer, at: number): void }[]) {
  const parts = records.map((record) => {
    const bytes = Buffer.alloc(record.byteLength());
    record.serialize(bytes, 0);
    return bytes;
  });
  return Buffer.concat([reply(1), ...parts]);
}

function long(value: number): Buffer {
  const bytes = Buffer.alloc(8);
  bytes.writeBigInt64BE(BigInt(value));
  return bytes;
}

/** czxid, mzxid, ctime, mtime, version, cversion, aversion, owner, length of data, children, pzxid. */
const STAT = new jute.data.Stat(
  ...[1, 2, 3, 4].map(long),
  5,
  13,
  7,
  long(8),
  9,
  11,
  long(12),
);

Deno.test("The znode of a reply is what the server has written", () => {
  const bytes = answered(new jute.protocol.GetDataResponse(DATA, STAT));
  const seen: unknown[] = [];
  const znode = getRequest(PATH, (known) => seen.push(known)).read(received(bytes));
  assertEquals(znode, { data: DATA, czxid: 1n, createdAtMs: 3, childCount: 11, createCount: 12 });
  assertEquals(seen, [znode]);
});

Deno.test("The event of a watch has the path and the change", () => {
  for (const [type, event] of [[1, "changed"], [2, "deleted"], [3, "changed"]] as const) {
    const bytes = answered(new jute.protocol.WatcherEvent(type, 3, PATH));
    assertEquals(readEvent(received(bytes)), { path: PATH, event });
  }
});

Deno.test("A reply that ends too early is refused, wherever it ends", () => {
  const whole = Buffer.from(childrenReply(1, ["a", PATH]));
  const read = (bytes: Buffer) => childrenRequest(PATH).read(received(bytes));
  assertEquals(read(whole).names, ["a", PATH]);
  for (let end = 20; end < whole.length; end++) {
    assertThrows(() => read(whole.subarray(0, end)), ProtocolError, "shorter than its fields");
  }
});
