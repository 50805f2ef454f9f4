// Amounts of money, as the service computed them.

/** `12.40 EUR`: two digits after the point, in the person's locale. The currency is what the administrator wrote. */
export function money(amount: string, currency: string): string {
  const digits = { minimumFractionDigits: 2, maximumFractionDigits: 2 };
  return `${new Intl.NumberFormat(undefined, digits).format(Number(amount))} ${currency}`;
}
