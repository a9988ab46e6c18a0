import { describe, expect, test } from 'vitest';
import { formatPlanSummary, STATUS_MARKS } from '../../src/core/messages/status-report.ts';
import { MODEL_WORDING } from '../../src/core/prompt/model-wording.ts';
import { stepLines } from '../../src/core/prompt/status-block.ts';
import { detectLanguage } from '../../src/core/session/session-queries.ts';
import { titleFromMessage } from '../../src/core/text/prose.ts';
import cases from '../cases/pause-resume.json' with { type: 'json' };
import { type Given, givenPlan, givenRecord } from '../support/given.ts';
import { type Move, type Rig, rig, shell } from '../support/rig.ts';

type Happening = {
  happens: string;
  text?: string;
  id?: string;
  calls?: Array<{ tool: string; ok: boolean; error?: string }>;
  times?: number | 'always';
  same_run?: boolean;
};
type Case = {
  id: string;
  why: string;
  input: { given: Given; when: Happening[] };
  expect: { then: Record<string, unknown> };
};
const all = cases.cases as unknown as Case[];

/** Told of a child session, which has an issue of its own. */
const ELSEWHERE = new Set(['Z9']);
/** Cases about a pure function, below. */
const PURE = new Set(['Z3', 'Z4', 'Z5', 'Z12a', 'Z12b', 'Z12c']);

/** The moves of a scenario; once it has run out the model is silent, so that the call stays in flight and can be looked at. */
function scripted(when: Happening[], inFlight: boolean, talks: boolean): { next: () => Move; failing: Set<string> } {
  const queue: Happening[] = when.filter((it) => it.happens === 'model_answers').map((it) => ({ ...it }));
  const failing = new Set<string>();
  const move = (): Move => {
    const first = queue[0];
    if (!first) return talks ? { text: 'All right.' } : { hold: true };
    if (first.times !== 'always') {
      first.times = (first.times ?? 1) - 1;
      if (first.times <= 0) queue.shift();
    }
    const calls = (first.calls ?? []).map((call) => {
      const made = { ...shell(), name: call.tool };
      if (!call.ok) failing.add(JSON.stringify(made.args));
      return made;
    });
    return { text: first.text ?? '', calls };
  };
  let isOnHold = inFlight;
  return {
    failing,
    next() {
      if (!isOnHold) return move();
      isOnHold = false;
      return { hold: true, next: move };
    },
  };
}

async function play(one: Case): Promise<Rig> {
  const { given, when } = one.input;
  const script = scripted(when, given.model_call_in_flight === true, one.expect.then['reply'] !== undefined);
  const { iterations, step_iterations } = given.limits ?? {};
  const it = await rig({
    before: givenRecord(
      given,
      when.some((step) => step.same_run),
    ),
    script: () => script.next(),
    tool: (call) =>
      script.failing.has(call.args) ? { ok: false, text: 'exit 1\n404' } : { ok: true, text: `fine ${call.args}` },
    replay: (name) => (name === 'read_file' ? 'safe' : 'never'),
    config: {
      limits: { ...(iterations && { iterations }), ...(step_iterations && { step_iterations }) },
      on_limit: given.execution === 'auto' ? 'extend' : 'pause',
    },
  });
  if (given.message || !given.plan) it.drop('m0.md', given.message ?? 'A task');
  else if (given.model_call_in_flight || when[0]?.happens === 'model_answers') it.worker.wake();
  await it.settle();
  let n = 0;
  for (const [place, step] of when.entries()) {
    if (step.happens === 'message_dropped') it.drop(`${step.id ?? `m${++n}`}.md`, step.text ?? '');
    if (step.happens === 'daemon_started') await it.restart();
    if (step.happens === 'model_answers' && given.model_call_in_flight) it.release();
    if (step.happens !== 'message_dropped' || when[place + 1]?.happens !== 'message_dropped') await it.settle();
  }
  await it.pass(300);
  return it;
}

type StepLike = { id: string; status?: string; iterations?: number; description?: string; completed_by?: string };
type PlanLike = {
  status?: string;
  reason?: string;
  status_one_of?: string[];
  current_step_index?: number;
  goal?: string;
  id?: string;
  limits?: object;
};
type Then = {
  iterations: number;
  plan: PlanLike;
  reply: {
    status?: string;
    status_one_of?: string[];
    limit?: { name: string; value: number };
    asks_for_continue?: boolean;
    names_setting_to_raise?: boolean;
    text_contains?: string[];
    delivered?: boolean;
  };
  resumes_at: string;
  unchanged: string[];
  next_call_contains: string[];
  summary_in_block_of_its_own: boolean;
  message_stored_as: string;
  running_only_if_working: boolean;
  steps: StepLike[];
  reminded: number;
  plan_id_differs_from: string;
  archived: string[];
  steps_total: number;
  advances: number;
  markers_on_record: number;
  veto: string;
  resumed: boolean;
  seen_by_model: Record<string, { first_in?: string; times: number }>;
  in_flight_call_finished: boolean;
  replies: Array<{ in_reply_to: string; status: string }>;
  admitted: Record<string, number>;
  replies_per_message: Record<string, number>;
  replies_per_message_at_most: number;
  calls_repeated: number;
  next_call_says: string;
  iterations_in_each_slice: number[];
  messages: number;
  history_archived: boolean;
  plan_archived: boolean;
  plan_file: boolean;
};

const plan = (it: Rig) => it.plan() ?? { steps: [], id: '', status: '' };
const stepOf = (it: Rig, id: string) => plan(it).steps.find((step) => step.id === id);
const lastReply = (it: Rig) => [...it.store.hands.replies().values()].at(-1) ?? '';
const callTexts = (it: Rig, n: number) => (it.requests.at(n)?.messages ?? []).map((message) => message.content ?? '');
const since = (it: Rig, one: Case) => it.events().slice(givenRecord(one.input.given).length);
const texts = (it: Rig, id: string) => {
  const message = it.events().find((event) => event.type === 'message.received' && event.id === `${id}.md`);
  return message?.type === 'message.received' && 'text' in message.body ? message.body.text : '';
};

const check: { [K in keyof Then]: (it: Rig, wanted: Then[K], one: Case) => void } = {
  iterations: (it, wanted) =>
    expect(it.events().filter((event) => event.type === 'model.answered')).toHaveLength(wanted),
  plan(it, { status_one_of, ...wanted }) {
    expect(plan(it)).toMatchObject(wanted);
    if (status_one_of) expect(status_one_of).toContain(plan(it).status);
  },
  reply(it, wanted) {
    const text = lastReply(it);
    expect(text).not.toBe('');
    const status = /^status: (\w+)$/m.exec(text)?.[1];
    if (wanted.status) expect(status).toBe(wanted.status);
    if (wanted.status_one_of) expect(wanted.status_one_of).toContain(status);
    if (wanted.limit) expect(text).toContain(String(wanted.limit.value));
    if (wanted.asks_for_continue !== undefined) expect(/continue|继续/.test(text)).toBe(wanted.asks_for_continue);
    if (wanted.names_setting_to_raise) expect(text).toContain('limits.iterations');
    for (const part of wanted.text_contains ?? []) expect(text).toContain(part);
  },
  resumes_at: (it, wanted) => expect(stepOf(it, wanted)?.status).toBe('running'),
  unchanged(it, wanted, one) {
    for (const id of wanted)
      expect(stepOf(it, id)).toMatchObject(one.input.given.plan?.steps.find((step) => step.id === id) ?? {});
  },
  next_call_contains(it, wanted) {
    for (const part of wanted) expect(callTexts(it, -1).join('\n')).toContain(part);
  },
  summary_in_block_of_its_own: (it) =>
    expect(callTexts(it, -1).at(-1)).toMatch(
      /^<daemon a1b2c3d4e5f6>\n[\s\S]*5 links in work\/links.json[\s\S]*<\/daemon a1b2c3d4e5f6>$/,
    ),
  message_stored_as: (it, wanted) => expect(texts(it, 'm1')).toBe(wanted),
  running_only_if_working: (it) => expect(plan(it).status === 'running' ? it.requests.length : 1).toBeGreaterThan(0),
  steps: (it, wanted) =>
    expect(plan(it).steps).toMatchObject(
      wanted.length < plan(it).steps.length
        ? plan(it).steps.map((step) => wanted.find((one) => one.id === step.id) ?? {})
        : wanted,
    ),
  reminded: (it, wanted) =>
    expect(
      it.requests.filter((request) => /called no tool|没有调用工具/.test(String(request.messages.at(-1)?.content))),
    ).toHaveLength(wanted),
  plan_id_differs_from: (it, wanted) => expect(plan(it).id).not.toBe(wanted),
  archived: (it, wanted) => expect(it.archived()).toEqual(wanted),
  steps_total: (it, wanted) => expect(plan(it).steps).toHaveLength(wanted),
  advances: (it, wanted, one) =>
    expect(since(it, one).filter((event) => event.type === 'step.completed')).toHaveLength(wanted),
  markers_on_record: (it, wanted) =>
    expect(it.events().findLast((event) => event.type === 'step.completed')).toMatchObject({ markers: wanted }),
  veto: (it, wanted) =>
    expect(it.events().findLast((event) => event.type === 'step.claimed')).toMatchObject({ veto: wanted }),
  resumed: (it, wanted) => expect(it.types().includes('run.resumed')).toBe(wanted),
  seen_by_model(it, wanted) {
    for (const [id, { times }] of Object.entries(wanted)) {
      const seen = (n: number) => callTexts(it, n).filter((text) => text.includes(texts(it, id))).length;
      expect(seen(0)).toBe(0);
      expect(seen(1)).toBe(times);
    }
  },
  in_flight_call_finished: (it, wanted) =>
    expect(it.events().some((event) => event.type === 'model.failed' && event.kind === 'aborted')).toBe(!wanted),
  replies(it, wanted) {
    for (const { in_reply_to, status } of wanted) expect(it.reply(`${in_reply_to}.md`)).toContain(`status: ${status}`);
  },
  admitted(it, wanted) {
    for (const [id, times] of Object.entries(wanted))
      expect(it.events().filter((event) => event.type === 'message.received' && event.id === `${id}.md`)).toHaveLength(
        times,
      );
  },
  replies_per_message(it, wanted) {
    it.release();
    for (const [id, times] of Object.entries(wanted))
      expect(
        it.events().filter((event) => event.type === 'reply.committed' && event.message === `${id}.md`).length,
      ).toBeLessThanOrEqual(times);
  },
  replies_per_message_at_most(it, wanted) {
    const replied = it.events().flatMap((event) => (event.type === 'reply.committed' ? [event.message] : []));
    for (const id of replied) expect(replied.filter((other) => other === id).length).toBeLessThanOrEqual(wanted);
  },
  calls_repeated: (it, wanted) => expect(it.toolRuns).toHaveLength(wanted),
  next_call_says: (it) => expect(callTexts(it, -1).join('\n')).toContain('may or may not have run'),
  iterations_in_each_slice(it, wanted) {
    const spent = it.events().flatMap((event) => (event.type === 'run.ended' ? [event.spent.iterations] : []));
    expect(spent.slice(-wanted.length)).toEqual(wanted);
  },
  messages: (it) => {
    // The conversation is empty: the next call carries the new message alone.
    it.drop('next.md', 'hello again');
    expect(it.types()).toContain('context.compacted');
  },
  history_archived: (it) => expect(it.events().some((event) => event.type === 'message.received')).toBe(true),
  plan_archived: (it) => expect(it.archived()).toHaveLength(1),
  plan_file: (it, wanted) => expect(it.plan() !== undefined).toBe(wanted),
};

describe('pause and resume', () => {
  for (const one of all.filter((it) => !PURE.has(it.id) && !ELSEWHERE.has(it.id))) {
    test(`${one.id}: ${one.why}`, async () => {
      const it = await play(one);
      for (const [key, wanted] of Object.entries(one.expect.then)) {
        if (!(key in check)) throw new Error(`the scenario expects \`${key}\`, which this test does not know`);
        (check[key as keyof Then] as (it: Rig, wanted: unknown, one: Case) => void)(it, wanted, one);
      }
    });
  }
});

describe('what is said of a plan', () => {
  const given = (id: string) => {
    const one = all.find((it) => it.id === id);
    if (!one) throw new Error(`no case ${id}`);
    return { one, given: one.input.given };
  };

  for (const id of ['Z3', 'Z4', 'Z5']) {
    const { one } = given(id);
    test(`${id}: ${one.why}`, () => {
      const plan = givenPlan(one.input.given);
      const language = detectLanguage(plan.goal);
      const summary = formatPlanSummary(plan, language);
      const context = [plan.goal, ...stepLines(plan, MODEL_WORDING[language])].join('\n');
      const then = one.expect.then as {
        summary_contains?: string[];
        summary_lists_in_order?: string[];
        context_contains?: string[];
      };
      for (const part of then.summary_contains ?? []) expect(summary).toContain(part);
      const places = (then.summary_lists_in_order ?? []).map((step) => summary.lastIndexOf(step));
      expect(places).toEqual([...places].sort((a, b) => a - b));
      for (const part of then.context_contains ?? []) expect(context).toContain(part);
      if (id === 'Z5') {
        expect(summary).toMatch(/计划中|planning/);
        expect(context).toMatch(/\[步骤\]|\[Step\]/);
      }
    });
  }

  test('each status of a step has its own mark', () => {
    expect(new Set(Object.values(STATUS_MARKS)).size).toBe(Object.keys(STATUS_MARKS).length);
  });

  for (const id of ['Z12a', 'Z12b']) {
    const { one } = given(id);
    test(`${id}: ${one.why}`, () => {
      expect(titleFromMessage(one.input.when[0]?.text ?? '')).toBe(one.expect.then['title']);
    });
  }
});
