// Amounts of money, as the service computed them.

import { locale } from "./locale";

/** `12.40 EUR`: two digits after the point. The currency is what the administrator wrote. */
export function money(amount: string, currency: string): string {
  const digits = { minimumFractionDigits: 2, maximumFractionDigits: 2 };
  return `${new Intl.NumberFormat(locale, digits).format(Number(amount))} ${currency}`;
}
