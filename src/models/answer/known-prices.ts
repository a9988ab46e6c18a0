import type { TokenPrices } from '../../engine/ports/session-ports.ts';

const known = new Map<string, TokenPrices | undefined>();

/**
 * The list price of a million tokens of a model at this address, from `PRICE_LIST`; undefined for an unknown address,
 * such as one on this machine, or an unknown model. Nothing is fetched. The list is large: loaded with the first call.
 */
export async function findKnownPrices(baseUrl: string, model: string): Promise<TokenPrices | undefined> {
  const key = `${baseUrl} ${model}`;
  if (!known.has(key)) known.set(key, await lookUp(baseUrl, model));
  return known.get(key);
}

async function lookUp(baseUrl: string, model: string): Promise<TokenPrices | undefined> {
  const { calcPrice } = await import('@pydantic/genai-prices');
  try {
    const found = calcPrice({ input_tokens: 1e6, output_tokens: 1e6 }, model, { providerApiUrl: baseUrl });
    return found ? { input: found.input_price, output: found.output_price } : undefined;
  } catch {
    // It knows the model, but not how its tokens are priced.
    return undefined;
  }
}
