/**
 * The word-list detector that agentd's is measured against: reimplemented from a prose description of an earlier
 * three-tier detector (markers, then transition words anywhere in the text, then a timeout). No third-party code.
 */
const MARKERS = ['[done]', '[完成]', '[step done]', '[步骤完成]', '[complete]', '[completed]', '[结束]'];
const TRANSITIONS = '现在 接下来 然后 继续 开始 现在让我 next now then continue proceed'.split(' ').concat('let me');
const TIMEOUT = 5;

export function wordList(text: string, iterationInStep: number): { done: boolean; tier: string } {
  const lower = text.toLowerCase();
  if (MARKERS.some((marker) => lower.includes(marker))) return { done: true, tier: 'marker' };
  if (iterationInStep >= 1 && TRANSITIONS.some((word) => lower.includes(word))) return { done: true, tier: 'transition' };
  return iterationInStep >= TIMEOUT ? { done: true, tier: 'timeout' } : { done: false, tier: 'none' };
}
