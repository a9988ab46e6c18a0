import { answers, BY_PERSON } from '../core/approval.ts';
import { answerIn, approvalText } from '../core/approval-file.ts';
import type { Session } from '../core/session.ts';
import type { EventBody } from '../protocol/event.ts';
import type { Ledger } from './ledger.ts';
import type { Approvals } from './ports.ts';

/** Keeps `approvals/` and the record together: an answer that was written into a file becomes an event, what is asked becomes a file. */
export type ApprovalDesk = {
  /** Takes in an answer that a person wrote. One read while a call waits, nothing otherwise. */
  read(): Promise<void>;
  /** Brings the files up to the record: one for the call that waits, none in its place for those that were answered. */
  flush(): Promise<void>;
  /** The same events, once the rules they add are in `session.json`: an answer that is on record is kept in full. */
  kept(events: EventBody[]): Promise<EventBody[]>;
};

export function approvalDesk(files: Approvals, ledger: Ledger, log: (text: string) => void): ApprovalDesk {
  let done: Session['approvals'] | null = null;
  let said = '';

  const complain = (text: string): void => {
    if (text !== said) log(text);
    said = text;
  };

  const kept = async (events: EventBody[]): Promise<EventBody[]> => {
    const settled: EventBody[] = [];
    for (const event of events) {
      if (event.type !== 'approval.answered' || event.always === undefined) settled.push(event);
      else {
        const { always, ...rest } = event;
        const why = await files.always(always);
        if (why !== null)
          log(`the rule { "allow": ${JSON.stringify(always)} } was not added: ${why}. The call runs this once`);
        settled.push(why === null ? event : rest);
      }
    }
    return settled;
  };

  const put = async (): Promise<void> => {
    const { open, last } = ledger.session.approvals;
    const there = await files.list();
    for (const id of there) if (id !== open?.id && id !== last?.id) await files.settle(id, undefined);
    // Where nobody could be asked there never was a file.
    const isNews = done !== null && done.last !== last;
    if (last && last.id > 0 && (isNews || there.includes(last.id))) await files.settle(last.id, approvalText(last));
    if (open && (await files.read(open.id)) === undefined) await files.write(open.id, approvalText(open));
  };

  return {
    kept,
    async read() {
      const { approvals } = ledger.session;
      const text = approvals.open ? await files.read(approvals.open.id) : undefined;
      // A file that somebody removed is written again.
      if (approvals.open && text === undefined) done = null;
      if (!approvals.open || text === undefined) return;
      const answer = answerIn(text, approvals.open);
      if ('fault' in answer) complain(`approvals/${approvals.open.id}.json is no answer: ${answer.fault}`);
      else if (answer.decision !== null) {
        const deny = answer.decision === 'deny';
        const always = answer.decision === 'always' ? answer.always : null;
        const said = { decision: deny ? 'deny' : 'allow', by: 'file', why: deny ? BY_PERSON : '', always } as const;
        await ledger.record(await kept(answers(ledger.session, said)));
      }
    },
    async flush() {
      const { approvals } = ledger.session;
      if (approvals === done) return;
      // What is asked or was answered is on disk before a file says so.
      await ledger.sync();
      await put();
      done = approvals;
    },
  };
}
