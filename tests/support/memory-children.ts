import type { ChildSessions } from '../../src/engine/ports/session-ports.ts';
import type { MessageFile } from '../../src/protocol/session/message.ts';
import type { Reply } from '../../src/protocol/session/reply.ts';
import type { ChildCall } from '../../src/protocol/settings/permissions.ts';

export type MemoryChildren = ChildSessions & {
  hands: {
    /** Every message that was sent, in order, each once. */
    sent: Array<{ child: string; message: MessageFile & { id: string } }>;
    /** Lets a child answer a message, by its id or the id without its plan; facts left out are those of a step that is done. */
    answer(child: string, id: string, reply?: Partial<Reply>): void;
    consumed: string[];
    /** Calls of child sessions that wait for a person, as their files show them. */
    waiting: ChildCall[];
  };
};

/** Child sessions without folders: what they are sent is seen, and what they answer is given by a test. */
export function memoryChildren(): MemoryChildren {
  const sent: MemoryChildren['hands']['sent'] = [];
  const replies = new Map<string, Reply>();
  const consumed: string[] = [];
  const waiting: ChildCall[] = [];
  return {
    async send(child, message) {
      if (!sent.some((one) => one.child === child && one.message.id === message.id)) sent.push({ child, message });
      return 'sent';
    },
    reply: async (child, id) => replies.get(`${child} ${id}`),
    waitingCalls: async () => [...waiting],
    async consume(child) {
      consumed.push(child);
    },
    hands: {
      sent,
      consumed,
      waiting,
      answer(child, short, reply = {}) {
        const wanted = sent.findLast((it) => it.child === child && it.message.id.startsWith(`${short}-`));
        const id = wanted?.message.id ?? short;
        replies.set(`${child} ${id}`, {
          id: `${id}.msg.json`,
          in_reply_to: id,
          session: child,
          status: 'done',
          text: 'done',
          plan: null,
          usage: { iterations: 1, tokens: 10, cost: null },
          attachments: [],
          ...reply,
        });
      },
    },
  };
}
