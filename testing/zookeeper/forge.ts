/**
 * Changes the sequence numbers in a server's snapshot: 2^31 creates would take weeks.
 *
 * @module
 * @see {@link https://github.com/apache/zookeeper/blob/master/zookeeper-server/src/main/java/org/apache/zookeeper/server/persistence/FileSnap.java}
 */
import type { ZooKeeperServer } from "../servers/zookeeper.ts";

/** Magic, version and id of the database. */
const HEADER_BYTES = 16;
const STAT_BYTES = 60;
const CVERSION_AT = 8 + 8 + 8 + 8 + 4;

/** Restarts a server so that the next sequential child of a znode gets the number `next`. */
export async function setNextSequence(
  server: ZooKeeperServer,
  path: string,
  next: number,
): Promise<void> {
  const settings = await server.fourLetterWord("conf");
  const directory = /^dataDir=(.*)$/m.exec(settings)![1]!;
  await server.restart(); // It writes a snapshot when it starts.
  await server.kill();
  let newest = "";
  for await (const { name } of Deno.readDir(directory)) {
    if (!name.startsWith("snapshot.")) continue;
    const zxid = (name: string) => BigInt(`0x${name.split(".")[1]}`);
    if (newest === "" || zxid(name) > zxid(newest)) newest = name;
  }
  const file = `${directory}/${newest}`;
  await Deno.writeFile(file, forged(await Deno.readFile(file), path, next));
  await server.restart();
}

/** Returns a snapshot with another sequence number, cut off after its first checksum. */
function forged(snapshot: Uint8Array<ArrayBuffer>, path: string, next: number): Uint8Array {
  const view = new DataView(snapshot.buffer);
  let at = HEADER_BYTES;
  const int = () => view.getInt32((at += 4) - 4);
  const skip = (bytes: number) => void (at += Math.max(0, bytes));
  const text = () => {
    const length = Math.max(0, int());
    return new TextDecoder().decode(snapshot.subarray(at, at += length));
  };
  for (let sessions = int(); sessions > 0; sessions--) skip(12);
  for (let lists = int(); lists > 0; lists--) {
    skip(8);
    for (let entries = int(); entries > 0; entries--) skip(4), text(), text();
  }
  let isFound = false;
  for (let znode = text(); znode !== "/"; znode = text()) {
    skip(int());
    skip(8); // its access control list
    if (znode === path) view.setInt32(at + CVERSION_AT, next);
    isFound ||= znode === path;
    skip(STAT_BYTES);
  }
  if (!isFound) throw new Error(`There is no ${path} in the snapshot`);
  const end = at;
  view.setBigInt64(end, BigInt(adler32(snapshot.subarray(0, end))));
  return snapshot.slice(0, end + 8 + 5);
}

function adler32(bytes: Uint8Array): number {
  let [a, b] = [1, 0];
  for (const byte of bytes) {
    a = (a + byte) % 65_521;
    b = (b + a) % 65_521;
  }
  return b * 65_536 + a;
}
