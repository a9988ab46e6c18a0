import { expect, test } from 'vitest';
import { z } from 'zod';
import type { Step } from '../../src/protocol/session/plan.ts';
import { casesOf } from '../core/case-file.ts';
import { type Rig, rig, shell } from '../support/rig.ts';

const Phases = z.object({
  prepare: z.array(z.string()),
  map: z.array(z.string()),
  reduce: z.array(z.string()),
  post: z.array(z.string()),
});
const Input = z.object({
  given: z.object({
    mode: z.literal('map-reduce'),
    session: z.string(),
    phases: Phases,
    parts: z.array(z.string()),
    batches: z.int().optional(),
    map_outputs: z.array(z.int().nullable()).optional(),
    limits: z.object({ batch_characters: z.int().optional(), retries: z.int().optional() }).optional(),
    reduce_policy: z.enum(['need_all', 'use_what_is_there']).optional(),
    parallel: z.int().optional(),
  }),
  when: z.array(
    z.discriminatedUnion('happens', [
      z.object({ happens: z.literal('run_works') }),
      z.object({ happens: z.literal('batches_asked') }),
      z.object({
        happens: z.literal('part_failed'),
        part: z.string(),
        error: z.string(),
        times: z.union([z.literal('always'), z.int()]),
      }),
    ]),
  ),
});
const Then = z
  .strictObject({
    phase_order: z.array(z.string()),
    parallel: z.record(z.string(), z.boolean()),
    children: z.int(),
    each_child_runs: z.array(z.string()),
    child_ids_distinct: z.boolean(),
    each_child_sees_only: z.string(),
    map_steps_run: z.int(),
    batches: z.array(z.array(z.string())),
    attempts: z.record(z.string(), z.int()),
    waits_seconds: z.array(z.int()),
    failed_parts: z.array(z.string()),
    reduce_ran: z.boolean(),
    plan: z.object({ status: z.string() }),
    reply: z.object({ status: z.string().optional(), text_contains: z.array(z.string()) }),
    reduce_inputs: z.array(z.string()),
    reduce_inputs_by_batch: z.array(z.array(z.string())),
    shared_inputs: z.boolean(),
    phase_failed: z.string(),
    error_says: z.string(),
    phase_skipped: z.string(),
    warned: z.boolean(),
    post_ran: z.boolean(),
  })
  .partial();
type Given = z.infer<typeof Input>['given'];
type Failing = { part: string; error: string; times: number };

/** The plan a planner would write for a case. `batches` of a case becomes a limit that makes so many of outcomes of 10 characters. */
function proposed({ phases, parts, limits, reduce_policy, batches }: Given): string {
  const size = limits?.batch_characters ?? (batches ? Math.ceil(parts.length / batches) * 10 : undefined);
  const on_failed_part = reduce_policy === 'use_what_is_there' ? 'continue' : 'fail';
  const map = { id: 'map', description: phases.map.join('\n'), each: { list: parts }, on_failed_part };
  const gather = { from: phases.map.length > 0 ? 'map' : 'prepare', ...(size !== undefined && { batch_chars: size }) };
  return JSON.stringify({
    steps: [
      { id: 'prepare', description: phases.prepare.join() },
      ...(phases.map.length > 0 ? [map] : []),
      { id: 'reduce', description: phases.reduce.join(), gather },
      { id: 'post', description: phases.post.join() },
    ],
  });
}

type Sent = { child: string; id: string; text: string; after: number };

/** Answers every child until the run ends: parts with their outcomes, failing as often as they shall. Answers what was seen. */
async function played(on: Rig, given: Given, failing: Failing | undefined) {
  const seen: { sent: Sent[]; together: number[]; waits: number[] } = { sent: [], together: [], waits: [] };
  let [tries, waited] = [0, 0];
  for (let idle = 0; on.worker && idle < 12; ) {
    const fresh = on.children.sent.slice(seen.sent.length);
    if (fresh.length === 0) {
      // Time goes by in steps of a second, so that a wait shows.
      await on.pass(1000);
      idle += 1;
      waited += 1;
      continue;
    }
    if (tries > 0 && waited > 0) seen.waits.push(waited);
    [idle, waited] = [0, 0];
    seen.together.push(fresh.length);
    for (const { child, message } of fresh) {
      seen.sent.push({ child, id: message.id, text: message.text ?? '', after: on.events().length });
      const step = on.plan()?.steps.find((one) => one.child === child);
      const place = given.parts.indexOf(step?.part?.[0] ?? '');
      const fails = failing && step?.part?.[0] === failing.part && tries < failing.times;
      if (fails) tries += 1;
      const size = given.map_outputs ? given.map_outputs[place] : 10;
      const text = step?.part ? 'x'.repeat(size ?? 0) : `joined ${message.id}`;
      on.children.answer(child, message.id, fails ? { status: 'failed', text: failing.error } : { text });
    }
    await on.wake();
  }
  return seen;
}

const inParts = (ids: readonly string[] | undefined, steps: readonly Step[]): string[] =>
  (ids ?? []).flatMap((id) => steps.find((step) => step.id === id)?.part ?? []);

const Expected = z.object(Object.fromEntries([['then', Then] as const]));

for (const { fact, input, expect: wanted } of casesOf('map-reduce', Input, Expected)) {
  test(fact, async () => {
    const { given, when } = input;
    const fault = when.find((one) => one.happens === 'part_failed');
    const failing = fault && { ...fault, times: fault.times === 'always' ? 99 : fault.times };
    const work = [{ text: 'working', calls: [shell()] }, { text: 'ready [Done]' }];
    const on = await rig({
      config: { mode: 'map-reduce', ...(given.parallel && { limits: { steps: given.parallel } }) },
      script: (request, n) => {
        if (n === 0) return { text: proposed(given) };
        if (JSON.stringify(request.messages.at(-1)).includes('All steps have ended')) return { text: 'The summary.' };
        return work[(n - 1) % 2] ?? {};
      },
    });
    await on.say('1.md', 'do it for every part');
    const seen = await played(on, given, failing);
    const then = Then.parse(wanted['then']);
    const plan = on.plan();
    const steps = plan?.steps ?? [];
    const parts = steps.filter((step) => step.parent === 'map');
    const batches = steps.filter((step) => step.parent === 'reduce');
    const stepOf = (part: string) => parts.find((step) => step.part?.includes(part));
    const order = on.events().flatMap((event) => (event.type === 'step.started' ? [event.step] : []));
    const lost = parts.filter((step) => step.status === 'failed').flatMap((step) => step.part ?? []);
    const isTogether = (phase: string) =>
      on.children.sent.length > 0 &&
      { prepare: false, map: (seen.together[0] ?? 0) > 1, reduce: (seen.together[1] ?? 0) > 1, post: false }[phase];
    const actual: Required<z.infer<typeof Then>> = {
      phase_order: order.filter((id) => !id.includes('.')),
      parallel: Object.fromEntries(Object.keys(then.parallel ?? {}).map((key) => [key, isTogether(key) ?? false])),
      children: parts.filter((step) => step.child).length,
      each_child_runs: given.phases.map.filter((one) =>
        seen.sent[0]?.text.split('\n').some((line) => line.endsWith(one)),
      ),
      child_ids_distinct: new Set(parts.map((step) => step.child)).size === parts.length,
      each_child_sees_only: seen.sent
        .filter(({ id }) => id.startsWith('map.'))
        .every(({ text }) => given.parts.filter((part) => text.includes(part)).length === 1)
        ? 'its own part'
        : 'others too',
      map_steps_run: parts.length * given.phases.map.length,
      batches: batches.map((step) => inParts(step.needs, steps)),
      attempts: Object.fromEntries(Object.keys(then.attempts ?? {}).map((part) => [part, stepOf(part)?.attempts ?? 1])),
      waits_seconds: seen.waits.slice(0, 3),
      failed_parts: lost,
      reduce_ran: batches.some((step) => step.child),
      plan: { status: plan?.status ?? '' },
      reply: {
        status: /^status: (\w+)$/m.exec(on.reply('1.md') ?? '')?.[1] ?? '',
        text_contains: (then.reply?.text_contains ?? []).filter((text) => on.reply('1.md')?.includes(text)),
      },
      reduce_inputs: batches.flatMap((step) => inParts(step.needs, steps)),
      reduce_inputs_by_batch: batches.map((step) => inParts(step.needs, steps)),
      shared_inputs:
        new Set(batches.flatMap((step) => step.needs ?? [])).size < batches.flatMap((step) => step.needs).length,
      phase_failed: steps.find((step) => step.status === 'failed')?.id ?? '',
      error_says: steps.find((step) => step.id === 'map')?.error?.includes(then.error_says ?? '')
        ? (then.error_says ?? '')
        : '',
      phase_skipped: steps.find((step) => step.status === 'skipped')?.id ?? '',
      warned: on.reply('1.md')?.includes('nothing to put together') ?? false,
      post_ran: steps.find((step) => step.id === 'post')?.status === 'completed',
    };
    expect(actual).toMatchObject(then);
  });
}
