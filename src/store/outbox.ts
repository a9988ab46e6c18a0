import * as fs from 'node:fs';
import { join } from 'node:path';
import type { Outbox } from '../engine/ports.ts';
import { isOutboxOwn } from '../protocol/names.ts';
import { putInPlace, stagingName, syncFolder } from './durable.ts';
import { ifThere, saying } from './errors.ts';
import type { SessionPaths } from './layout.ts';
import { checkReplyName, earlierName, freeName } from './names.ts';
import { statAt } from './there.ts';

/**
 * Reply files. A reply is published where its bytes are in place under its name, not where only the name is taken: a record that
 * was put back from a backup gives names again under which answers of its lost part still lie.
 */
export function openOutbox(paths: SessionPaths): Outbox {
  const inOutbox = (name: string) => join(paths.outbox, name);
  const isReserved = (name: string) => isOutboxOwn(name) || statAt(inOutbox(name))?.isDirectory() === true;

  /** The name itself, or one beside it where a folder has that name: the same one again for the same bytes. */
  const nameFor = (name: string, content: string) =>
    isReserved(name)
      ? freeName(`${name}-2`, (one) => statAt(inOutbox(one)) !== undefined && !holds(inOutbox(one), content))
      : name;

  const put = async (wanted: string, content: string) => {
    const name = nameFor(wanted, content);
    const staging = join(paths.outboxStaging, stagingName());
    while (!(await putInPlace(staging, inOutbox(name), content))) {
      if (holds(inOutbox(name), content)) return;
      makeWay(name);
    }
  };

  /** Other bytes keep a name of their own: somebody may not have read them yet. */
  const makeWay = (name: string) => {
    const earlier = freeName(earlierName(name), (one) => statAt(inOutbox(one)) !== undefined);
    saying('rename', inOutbox(name), () => ifThere(() => fs.renameSync(inOutbox(name), inOutbox(earlier))));
  };

  return {
    isReserved,
    async publish(name, content) {
      checkReplyName(name);
      // In this order: a frontend moves files from outbox/ to read/, never back, so none slips through between the looks.
      const published = holds(inOutbox(name), content) || holds(join(paths.outboxRead, name), content);
      if (published) await syncFolder(paths.outbox);
      else await put(name, content);
    },
    async restore(name) {
      checkReplyName(name);
      if (statAt(inOutbox(name))?.isFile()) return true;
      const content = ifThere(() => readReply(join(paths.outboxRead, name)));
      if (content === undefined) return false;
      await put(name, content.toString());
      return true;
    },
    async publishAgain(name, content) {
      checkReplyName(name);
      await put(name, content);
    },
  };
}

/** Whether a regular file with exactly these bytes is there. */
function holds(path: string, content: string): boolean {
  const stat = statAt(path);
  if (!stat?.isFile() || stat.size !== Buffer.byteLength(content)) return false;
  return ifThere(() => readReply(path))?.equals(Buffer.from(content)) ?? false;
}

function readReply(path: string): Buffer {
  const { O_NOFOLLOW, O_NONBLOCK, O_RDONLY } = fs.constants;
  const file = fs.openSync(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
  try {
    return fs.readFileSync(file);
  } finally {
    fs.closeSync(file);
  }
}
